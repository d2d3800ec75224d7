-- want(id) -> the number of this wish to look at the folders again
if not first_time(ARGV[1]) then
  return tonumber(redis.call('HGET', P .. 'meta', 'wanted') or 0)
end
return redis.call('HINCRBY', P .. 'meta', 'wanted', 1)
