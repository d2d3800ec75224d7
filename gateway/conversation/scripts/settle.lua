-- settle(c, token, rev, wid, worker, places, keep ms) -> verdict, and after OK as claim: grants, ring, wait_ms
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return { verdict, {}, 0, -1, now }
end
if redis.call('HEXISTS', key(c), 'turn') == 1 or unsent(c) then
  return { 'STAY', {}, 0, -1, now }
end
local ch = channel_of(c)
redis.call('HDEL', key(c), 'tries')
redis.call('DEL', key(c, 'outbox'), key(c, 'states'))
free(c, ch)
if has_work(c) then
  put(c, ch) -- looked at in the script that releases: no message can strand between
else
  redis.call('HSET', key(c), 'idle', '1')
  for _, name in ipairs({ key(c), key(c, 'history'), key(c, 'ours') }) do redis.call('PEXPIRE', name, ARGV[8]) end
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return grant(ARGV[6], tonumber(ARGV[7]))
