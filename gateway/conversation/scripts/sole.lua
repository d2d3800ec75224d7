-- sole(c, token, begins) -> verdict: OK, WAIT (another one's turn), FENCED
-- What many holders died with goes on with nothing beside it, and one at a time: whoever dies then died of it. It `waits`
-- until its holder has nothing else in hand, and a death meanwhile is not counted against it.
local c, token = ARGV[2], ARGV[3]
if redis.call('HGET', key(c), 'token') ~= token then
  return 'FENCED'
end
go_on_when_full()
local other, its = string.match(redis.call('GET', P .. 'sole') or '', '^(%S+) (%S+)$')
if other and other ~= c and redis.call('HGET', key(other), 'token') == its then
  return 'WAIT'
end
redis.call('SET', P .. 'sole', c .. ' ' .. token, 'PX', 86400000)
if ARGV[4] == '1' then
  redis.call('HDEL', key(c), 'waits')
end
return 'OK'
