-- heads(c, from, count, bytes) -> the first bytes of each of so many records, from a place in history on; below 0: from its end
local c, from = ARGV[2], tonumber(ARGV[3])
if from < 0 then
  from = math.max(0, redis.call('LLEN', key(c, 'history')) + from)
end
local found = {}
for at = from, from + tonumber(ARGV[4]) - 1 do
  local line = redis.call('LINDEX', key(c, 'history'), at)
  if not line then
    break
  end
  found[#found + 1] = string.sub(line, 1, tonumber(ARGV[5]))
end
return found
