-- anew(id, scope, said, revision as it was seen, kept for s) -> verdict: a scope begins again, with nothing decided
-- Whatever lies there that nobody understands is put aside for a while, for whoever mends by hand.
local key, aside = P .. ARGV[2], P .. 'aside:' .. ARGV[2]
if made_before(ARGV[1]) then
  return 'OK'
end
must_be('set', P .. 'decided')
local seen = redis.pcall('HGET', key, 'rev')
if (type(seen) == 'string' and seen or '') ~= ARGV[4] then
  return 'CHANGED'
end
audit(ARGV[3], '', '')
redis.call('SADD', P .. 'decided', ARGV[2])
if redis.call('EXISTS', key) == 1 then
  redis.call('RENAME', key, aside)
  redis.call('EXPIRE', aside, ARGV[5])
end
redis.call('HSET', key, 'rev', text(time[1] * 1000000 + time[2]))
made(ARGV[1], 'anew')
return 'OK'
