-- page(c, end, count, bytes) -> records of history before a place, the last first: so many at most, and no more bytes than that, unless
-- it is one alone
local c, last = ARGV[2], tonumber(ARGV[3]) - 1
local found, left = {}, tonumber(ARGV[5])
for at = last, math.max(0, last + 1 - tonumber(ARGV[4])), -1 do
  local line = redis.call('LINDEX', key(c, 'history'), at)
  left = left - #(line or '')
  if not line or (left < 0 and #found > 0) then
    break
  end
  found[#found + 1] = line
end
return found
