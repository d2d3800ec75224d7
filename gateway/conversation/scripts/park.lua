-- park(c, token, rev, wid, until_ms, saw_seq, worker, places, saw control) -> as settle; until_ms is a duration from now
-- What lay in control when the worker looked, and lies there still, has to wait as well: looking again would not help.
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return { verdict, {}, 0, -1, now }
end
local seq = tonumber(redis.call('HGET', key(c), 'seq') or 0)
local saw = tonumber(ARGV[7]) -- below 0: this worker can do nothing here, whatever came
if saw >= 0 and (redis.call('LLEN', key(c, 'control')) > tonumber(ARGV[10]) or seq > saw) then
  return { 'STAY', {}, 0, -1, now }
end
free(c, channel_of(c))
redis.call('ZADD', P .. 'due', text(now + tonumber(ARGV[6])), c)
advance(c, tonumber(ARGV[4]), ARGV[5])
return grant(ARGV[8], tonumber(ARGV[9]))
