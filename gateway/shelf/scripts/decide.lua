-- decide(id, scope, field, value, said, n conditions, (field, bundle)...) -> verdict, what was done or the value before
-- scope is `org` or `ch:<channel>`; an empty value takes the field away; a condition names the bundle that a field must hold.
-- What was done is JSON of `said`, and the value before; it is the same when the same change is asked for again.
local key, refs = P .. ARGV[2], P .. 'refs'
local field, value = ARGV[3], ARGV[4]

-- A field that nobody can read names nothing.
local function read(stored)
  local is_read, found = pcall(cjson.decode, stored or '')
  return is_read and type(found) == 'table' and found or {}
end

local done = made_before(ARGV[1])
if done then
  return { 'DONE', done }
end
must_be('hash', key, refs)
must_be('set', P .. 'decided')
if redis.call('EXISTS', key) == 0 and redis.call('SISMEMBER', P .. 'decided', ARGV[2]) == 1 then
  error(key .. ' is gone, and with it what was decided: one decision would stand for all')
end
local before = redis.call('HGET', key, field)
for i = 0, tonumber(ARGV[6]) - 1 do
  if read(redis.call('HGET', key, ARGV[7 + 2 * i])).bundle ~= ARGV[8 + 2 * i] then
    return { 'CHANGED', before or '' }
  end
end
local old, new = read(before), read(value)
local is_bundle = string.sub(field, 1, 2) == 'b:'
if is_bundle and new.bundle then
  if old.key and old.key ~= new.key then
    return { 'LOOK_ALIKE', before } -- both were looked for at once, and neither was there
  end
  if redis.call('EXISTS', P .. 'bundle:' .. new.bundle) == 0 then
    return { 'NO_BUNDLE', before or '' }
  end
end
-- The revision follows the clock, so that a number is never given twice, even after Redis lost its tail.
local us = time[1] * 1000000 + time[2]
local revision = text(math.max(whole(redis.call('HGET', key, 'rev'), 0) + 1, us))
done = cjson.encode({ said = ARGV[5], before = before or '' })

audit(ARGV[5], before, value)
redis.call('SADD', P .. 'decided', ARGV[2]) -- before the first one lies there: what is on this list can't be lost unseen
if is_bundle then
  if new.bundle then
    hold(new.bundle)
  end
  if type(old.bundle) == 'string' then
    release(old.bundle)
  end
end
if value == '' then
  redis.call('HDEL', key, field)
else
  redis.call('HSET', key, field, value)
end
redis.call('HSET', key, 'rev', revision)
made(ARGV[1], done)
return { 'OK', done }
