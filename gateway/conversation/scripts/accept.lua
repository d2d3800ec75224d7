-- accept(c, ch, parts, at_ms, event, kind, delay_ms, dedupe hash...) -> state, ring, seq
if cold() then
  return { 'COLD', 0, 0 } -- the data is gone
end
local c, ch, parts, at, event, kind, delay = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local seen = key(c, 'seen')
for i = 9, #ARGV do
  local when = redis.call('ZSCORE', seen, ARGV[i])
  if when and tonumber(when) > now - S.dedupe_ms then
    return { 'KNOWN', 0, 0 }
  end
end
local full
if kind == 'control' then
  full = redis.call('LLEN', key(c, 'control')) >= S.inbox_max -- /stop is for when much waits
else
  full = redis.call('ZCARD', key(c, 'inbox')) >= S.inbox_max
    or tonumber(redis.call('GET', P .. 'waiting') or 0) >= S.waiting_max
end
if full then
  return { 'FULL', 0, 0 } -- nothing is written, so that a retry is no duplicate
end
redis.call('HSET', key(c), 'channel', ch, 'parts', parts) -- first: a full server stops it here, or not at all
for i = 9, #ARGV do
  redis.call('ZADD', seen, text(now), ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', seen, '-inf', text(now - S.dedupe_ms))
redis.call('PEXPIRE', seen, text(S.dedupe_ms))
if redis.call('HDEL', key(c), 'idle') == 1 then
  redis.call('PERSIST', key(c))
  redis.call('PERSIST', key(c, 'history'))
end
local seq = redis.call('HINCRBY', key(c), 'seq', 1)
if kind == 'control' then
  redis.call('RPUSH', key(c, 'control'), event)
else
  local at_most = math.min(math.max(at, now - 5000), now)
  redis.call('ZADD', key(c, 'inbox'), text(at_most), string.format('%012.0f:', seq) .. event)
end
local worker = redis.call('HGET', key(c), 'worker')
if worker then
  redis.call('PUBLISH', P .. 'nudge:' .. worker, c)
  return { 'NEW', 0, seq }
end
if delay > 0 and not redis.call('ZSCORE', P .. 'ready:' .. ch, c) then
  local there = tonumber(redis.call('ZSCORE', P .. 'due', c))
  redis.call('ZADD', P .. 'due', text(math.min(there or now + delay, now + delay)), c)
  return { 'NEW', ring_due(), seq }
end
put(c, ch)
return { 'NEW', ring_due(), seq }
