-- look(channel, known org, known channel) -> snapshot, its hash, wanted, done, {revision, decisions or nothing if known} twice
-- A scope without a revision is never known: its fields, if it has any, were put there by hand.
local function decisions(name, known)
  local revision = redis.call('HGET', P .. name, 'rev') or '0'
  if revision ~= '0' and revision == known then
    return { revision, false }
  end
  return { revision, redis.call('HGETALL', P .. name) }
end

local meta = redis.call('HMGET', P .. 'meta', 'snapshot', 'hash', 'wanted', 'done')
return {
  whole(meta[1] or '0', -1), -- no snapshot is called so
  meta[2] or '',
  whole(meta[3], 0),
  whole(meta[4], 0),
  decisions('org', ARGV[2]),
  ARGV[1] ~= '' and decisions('ch:' .. ARGV[1], ARGV[3]) or { '0', {} },
}
