-- ask(person, connection, code, its hash, who it is, limits, said) -> PAIRED | NEW code ms | WAITS code ms | FULL | OFTEN
-- `who it is` is JSON; limits are JSON: wait_ms, waiting, asked, asked_ms, refusals. A person has one code at a time.
local person, connection, code, hash, L = ARGV[1], ARGV[2], ARGV[3], ARGV[4], cjson.decode(ARGV[6])
local who, waiting, asked = P .. 'pair:who:' .. person, P .. 'pair:waiting:' .. connection, P .. 'pair:asked:' .. person
if redis.call('HEXISTS', P .. 'paired', person) == 1 then
  return { 'PAIRED' }
end
local known = redis.call('HGET', who, 'code')
if known then
  return { 'WAITS', known, redis.call('PTTL', who) }
end
must_be('zset', waiting)
redis.call('ZREMRANGEBYSCORE', waiting, '-inf', text(now))
if redis.call('ZCARD', waiting) >= L.waiting or redis.call('EXISTS', P .. 'pair:code:' .. hash) == 1 then
  return { 'FULL' }
end
if whole(redis.call('GET', asked), 0) >= L.asked then
  return { 'OFTEN' }
end
keep('refused', ARGV[7], '', '', L.refusals)
redis.call('INCR', asked)
redis.call('PEXPIRE', asked, text(L.asked_ms))
redis.call('ZADD', waiting, text(now + L.wait_ms), person)
redis.call('PEXPIRE', waiting, text(L.wait_ms))
redis.call('HSET', who, 'code', code, 'hash', hash, 'is', ARGV[5], 'at', text(now))
redis.call('PEXPIRE', who, text(L.wait_ms))
redis.call('SET', P .. 'pair:code:' .. hash, person, 'PX', text(L.wait_ms))
return { 'NEW', code, L.wait_ms }
