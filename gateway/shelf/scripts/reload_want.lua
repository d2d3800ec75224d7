-- want(id) -> the number of this wish to look at the folders again
local before = made_before(ARGV[1])
if before then
  return whole(before, 0)
end
local wish = whole(redis.call('HGET', P .. 'meta', 'wanted'), 0) + 1
redis.call('HSET', P .. 'meta', 'wanted', text(wish))
made(ARGV[1], text(wish))
return wish
