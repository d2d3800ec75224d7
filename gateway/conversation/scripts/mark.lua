-- mark(c, token, rev, wid, row key, state) -> verdict
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return verdict
end
local state = redis.call('HGET', key(c, 'states'), ARGV[6])
if not state then
  return 'NO_ROW'
end
if string.match(state, '^%S+') == 'sent' then
  return 'SENT'
end
redis.call('HSET', key(c, 'states'), ARGV[6], ARGV[7])
if string.match(ARGV[7], '^%S+') == 'sent' then
  redis.call('HSET', key(c), 'answered', '1') -- a thread that we answered in may go on without a mention
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return verdict
