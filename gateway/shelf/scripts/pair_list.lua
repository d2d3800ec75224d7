-- list(connection...) -> {person, who it is, when}... of those who wait for a word
local found = {}
for _, connection in ipairs(ARGV) do
  for _, person in ipairs(redis.call('ZRANGEBYSCORE', P .. 'pair:waiting:' .. connection, text(now), '+inf')) do
    local is = redis.call('HMGET', P .. 'pair:who:' .. person, 'is', 'at')
    if is[1] then
      found[#found + 1] = { person, is[1], is[2] }
    end
  end
end
return found
