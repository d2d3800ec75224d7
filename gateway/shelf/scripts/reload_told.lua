-- told(id, said, snapshot) -> the snapshot that the reload before this one told of
-- That one is kept until the next reload, so that what changed on its own in between is told as well.
local before = redis.call('GET', P .. 'reloaded:' .. ARGV[1])
if before then
  return tonumber(before)
end
before = redis.call('HGET', P .. 'meta', 'told') or ARGV[3]
redis.call('SET', P .. 'reloaded:' .. ARGV[1], before, 'EX', '86400')
redis.call('HSET', P .. 'meta', 'told', ARGV[3])
if before ~= ARGV[3] then
  redis.call('EXPIRE', P .. 'snapshot:' .. before, '3600')
end
if redis.call('HGET', P .. 'meta', 'snapshot') == ARGV[3] then
  redis.call('PERSIST', P .. 'snapshot:' .. ARGV[3])
end
audit(ARGV[2], 'snapshot ' .. before, 'snapshot ' .. ARGV[3])
return tonumber(before)
