-- decide(id, scope, field, value, said, n conditions, (field, bundle)...) -> verdict, value before
-- scope is `org` or `ch:<channel>`; an empty value takes the field away; a condition names the bundle that a field must hold.
local key = P .. ARGV[2]
local field, value = ARGV[3], ARGV[4]

local function bundle_of(stored)
  return stored and cjson.decode(stored).bundle
end

if made_before(ARGV[1]) then
  return { 'DONE', redis.call('HGET', key, field) }
end
for i = 0, tonumber(ARGV[6]) - 1 do
  if bundle_of(redis.call('HGET', key, ARGV[7 + 2 * i])) ~= ARGV[8 + 2 * i] then
    return { 'CHANGED', false }
  end
end
local before = redis.call('HGET', key, field)
local is_bundle = string.sub(field, 1, 2) == 'b:'
local new = is_bundle and value ~= '' and bundle_of(value) or nil
if new and redis.call('EXISTS', P .. 'bundle:' .. new) == 0 then
  return { 'NO_BUNDLE', before }
end
first_time(ARGV[1])
if is_bundle then
  if new then
    hold(new)
  end
  if before then
    release(bundle_of(before))
  end
end
if value == '' then
  redis.call('HDEL', key, field)
else
  redis.call('HSET', key, field, value)
end
-- The revision follows the clock, so that a number is never given twice, even after Redis lost its tail.
local us = time[1] * 1000000 + time[2]
redis.call('HSET', key, 'rev', text(math.max(tonumber(redis.call('HGET', key, 'rev') or 0) + 1, us)))
audit(ARGV[5], before, value)
return { 'OK', before }
