-- adopt(candidate epoch, schema, partitions) -> epoch. The operator says that the data in Redis is what there is.
if redis.call('EXISTS', P .. 'meta') == 0 then
  redis.call('HSET', P .. 'meta', 'epoch', ARGV[2], 'schema', ARGV[3], 'partitions', ARGV[4])
end
redis.call('HSET', P .. 'meta', 'adopted', '1')
return redis.call('HGET', P .. 'meta', 'epoch')
