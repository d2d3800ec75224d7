-- look(channel, known org, known channel) -> snapshot, its hash, wanted, done, {revision, decisions or nothing if known} twice
local function decisions(name, known)
  local revision = redis.call('HGET', P .. name, 'rev') or '0'
  if revision == known then
    return { revision, false }
  end
  return { revision, redis.call('HGETALL', P .. name) }
end

local meta = redis.call('HMGET', P .. 'meta', 'snapshot', 'hash', 'wanted', 'done')
return {
  tonumber(meta[1] or 0),
  meta[2] or '',
  tonumber(meta[3] or 0),
  tonumber(meta[4] or 0),
  decisions('org', ARGV[2]),
  ARGV[1] ~= '' and decisions('ch:' .. ARGV[1], ARGV[3]) or { '0', {} },
}
