-- look(channel, known org, known channel) -> snapshot, its hash, wanted, done, {revision, decisions or nothing if known} twice
-- A scope without a revision is never known: its fields, if it has any, were put there by hand. One where somebody decided
-- and nothing is left has the revision `lost`. A scope of a version that kept no list of them is put on it here.
local function decisions(name, known)
  local revision = redis.call('HGET', P .. name, 'rev') or '0'
  local is_listed = redis.call('SISMEMBER', P .. 'decided', name) == 1
  if is_listed and redis.call('EXISTS', P .. name) == 0 then
    return { 'lost', {} }
  end
  if revision ~= '0' and not is_listed then
    redis.pcall('SADD', P .. 'decided', name) -- a server that is full takes it another time
  end
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
