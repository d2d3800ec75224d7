-- accept(id, connection, person, hash of the code, value, said, what is told) -> OK | DONE | GONE
local person, who = ARGV[3], P .. 'pair:who:' .. ARGV[3]
if made_before(ARGV[1]) then
  return 'DONE'
end
if redis.call('HGET', who, 'hash') ~= ARGV[4] then
  return 'GONE' -- its time is over, or somebody was quicker
end
must_be('hash', P .. 'paired')
must_be('zset', P .. 'pair:waiting:' .. ARGV[2])
audit(ARGV[6], redis.call('HGET', P .. 'paired', person), ARGV[5])
redis.call('HSET', P .. 'paired', person, ARGV[5])
redis.call('ZREM', P .. 'pair:waiting:' .. ARGV[2], person)
redis.call('DEL', who, P .. 'pair:code:' .. ARGV[4], P .. 'pair:told:' .. person, P .. 'pair:asked:' .. person)
made(ARGV[1], ARGV[7])
return 'OK'
