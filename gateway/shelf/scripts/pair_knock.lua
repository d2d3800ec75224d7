-- knock(person, told ms) -> whether they were let in (0 or 1), whether they may be told something now (0 or 1)
-- Somebody who writes on and on is told once in a while.
local paired = redis.call('HEXISTS', P .. 'paired', ARGV[1])
if paired == 1 or ARGV[2] == '0' then
  return { paired, 0 }
end
return { 0, redis.call('SET', P .. 'pair:told:' .. ARGV[1], '1', 'NX', 'PX', ARGV[2]) and 1 or 0 }
