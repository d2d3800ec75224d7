-- find(hash of a code, who asks, limits) -> OK person, who it is, when (ms) | NONE | WRONG
-- limits are JSON: wrong, wrong_ms. WRONG: so many wrong ones that no more are looked at.
local L, wrong = cjson.decode(ARGV[3]), P .. 'pair:wrong:' .. ARGV[2]
if whole(redis.call('GET', wrong), 0) >= L.wrong then
  return { 'WRONG' }
end
local person = redis.call('GET', P .. 'pair:code:' .. ARGV[1])
local found = person and redis.call('HMGET', P .. 'pair:who:' .. person, 'hash', 'is', 'at')
if not found or found[1] ~= ARGV[1] then
  redis.call('INCR', wrong)
  redis.call('PEXPIRE', wrong, text(L.wrong_ms))
  return { 'NONE' }
end
return { 'OK', person, found[2], found[3] }
