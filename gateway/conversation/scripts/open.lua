-- open(candidate epoch, schema, partitions) -> epoch, schema, partitions, made (1: Redis was empty), adopted
local made = 0
if redis.call('EXISTS', P .. 'meta') == 0 then
  redis.call('HSET', P .. 'meta', 'epoch', ARGV[2], 'schema', ARGV[3], 'partitions', ARGV[4], 'adopted', '0')
  made = 1
end
local meta = redis.call('HMGET', P .. 'meta', 'epoch', 'schema', 'partitions', 'adopted')
return { meta[1], tonumber(meta[2]), tonumber(meta[3]), made, tonumber(meta[4]) }
