-- accept(c, ch, parts, at_ms, event, kind, delay_ms, dedupe hash...) -> state, ring, seq, now
if cold() then
  return { 'COLD', 0, 0, now } -- the data is gone
end
local c, ch, parts, at, event, kind, delay = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local seen = key(c, 'seen')
if known(c, 9) then
  return { 'KNOWN', 0, 0, now }
end
local is_full
if kind == 'control' then
  is_full = redis.call('LLEN', key(c, 'control')) >= S.inbox_max -- /stop is for when much waits
else
  is_full = full(c, 1)
end
if is_full then
  return { 'FULL', 0, 0, now } -- nothing is written, so that a retry is no duplicate
end
redis.call('HSET', key(c), 'channel', ch, 'parts', parts) -- first: a full server stops it here, or not at all
for i = 9, #ARGV do
  redis.call('ZADD', seen, text(now), ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', seen, '-inf', text(now - S.dedupe_ms))
redis.call('PEXPIRE', seen, text(S.dedupe_ms))
local seq = arrive(c)
if kind == 'control' then
  redis.call('RPUSH', key(c, 'control'), event)
else
  enqueue(c, seq, at, event)
end
return { 'NEW', call_for(c, ch, delay) and ring_due() or 0, seq, now }
