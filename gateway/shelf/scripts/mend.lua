-- mend(name, number, hash, snapshot) -> verdict: what is in force lies there again as it was published
if redis.call('GET', P .. 'packer') ~= ARGV[1] then
  return 'LOST'
end
must_be('hash', P .. 'meta')
if redis.call('HGET', P .. 'meta', 'snapshot') ~= ARGV[2] then
  return 'BEHIND'
end
redis.call('SET', P .. 'snapshot:' .. ARGV[2], ARGV[4])
redis.call('HSET', P .. 'meta', 'hash', ARGV[3])
return 'OK'
