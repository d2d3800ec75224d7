-- retry(c, ch, letter, event...) -> verdict
-- What the turn of a dead letter answered comes into the inbox once more, and the letter is gone: both or none.
if cold() then
  return 'COLD'
end
local c, letter = ARGV[2], ARGV[4]
if #redis.call('XRANGE', P .. 'dead', letter, letter) == 0 then
  return 'GONE'
end
if full(c, #ARGV - 4) then
  return 'FULL'
end
redis.call('HSET', key(c), 'channel', ARGV[3]) -- first: a full server stops it here, or not at all
for i = 5, #ARGV do
  enqueue(c, arrive(c), now, ARGV[i])
end
redis.call('XDEL', P .. 'dead', letter)
call_for(c, ARGV[3], 0)
return 'OK'
