-- open(candidate epoch, schema, partitions) -> epoch, made (1: Redis was empty); nothing where somebody knew another epoch
local made = 0
if redis.call('EXISTS', P .. 'meta') == 0 then
  if redis.call('EXISTS', P .. 'strangers') == 1 then
    return {}
  end
  redis.call('HSET', P .. 'meta', 'epoch', ARGV[2], 'schema', ARGV[3], 'partitions', ARGV[4], 'adopted', '0')
  made = 1
end
return { redis.call('HGET', P .. 'meta', 'epoch'), made }
