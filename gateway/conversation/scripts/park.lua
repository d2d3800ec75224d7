-- park(c, token, rev, wid, until_ms, saw_seq, worker, places) -> as settle; until_ms is a duration from now
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return { verdict, {}, 0, -1, now }
end
local seq = tonumber(redis.call('HGET', key(c), 'seq') or 0)
if redis.call('EXISTS', key(c, 'control')) == 1 or seq > tonumber(ARGV[7]) then
  return { 'STAY', {}, 0, -1, now }
end
free(c, channel_of(c))
redis.call('ZADD', P .. 'due', text(now + tonumber(ARGV[6])), c)
advance(c, tonumber(ARGV[4]), ARGV[5])
return grant(ARGV[8], tonumber(ARGV[9]))
