-- publish(name, number before, hash, snapshot, n new bundles, new..., old...) -> verdict, number
local n = tonumber(ARGV[5])
local MANY = 1000 -- in one command: thousands of small ones would hold up everybody else
if redis.call('GET', P .. 'packer') ~= ARGV[1] then
  return { 'LOST', 0 }
end
must_be('hash', P .. 'meta', P .. 'refs')
local before = text(math.max(0, whole(redis.call('HGET', P .. 'meta', 'snapshot'), 0)))
if before ~= ARGV[2] then
  return { 'BEHIND', 0 }
end
for i = 6, 5 + n, MANY do
  local keys = {}
  for at = i, math.min(i + MANY - 1, 5 + n) do
    keys[#keys + 1] = P .. 'bundle:' .. ARGV[at]
  end
  if redis.call('EXISTS', unpack(keys)) < #keys then
    return { 'NO_BUNDLE', 0 }
  end
end
local number = whole(before, 0) + 1
local told = redis.call('HGET', P .. 'meta', 'told')

for i = 6, 5 + n, MANY do
  hold(unpack(ARGV, i, math.min(i + MANY - 1, 5 + n)))
end
for i = 6 + n, #ARGV do
  release(ARGV[i])
end
redis.call('SET', P .. 'snapshot:' .. text(number), ARGV[4])
if not told then
  redis.call('HSET', P .. 'meta', 'told', text(number))
end
if before ~= told then
  redis.call('EXPIRE', P .. 'snapshot:' .. before, '3600')
end
redis.call('HSET', P .. 'meta', 'snapshot', text(number), 'hash', ARGV[3])
return { 'OK', number }
