-- mark(c, token, rev, wid, row key, state, message id to know again, or nothing) -> verdict
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
  if ARGV[8] ~= '' then -- a platform that does not say whose message is answered
    redis.call('ZADD', key(c, 'ours'), text(now), ARGV[8])
    redis.call('ZREMRANGEBYRANK', key(c, 'ours'), 0, -101)
    redis.call('PEXPIRE', key(c, 'ours'), text(S.retention_ms))
  end
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return verdict
