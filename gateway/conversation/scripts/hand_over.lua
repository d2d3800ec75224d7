-- hand_over(c, token, counts) -> verdict, ring. Asks for no revision: whoever lost track gives back what it holds.
local c = ARGV[2]
if redis.call('HGET', key(c), 'token') ~= ARGV[3] then
  return { 'FENCED', 0 }
end
go_on_when_full()
local ch = channel_of(c)
local waits = redis.call('HEXISTS', key(c), 'waits') == 1
free(c, ch)
if ARGV[4] == '1' and not waits then -- of what has not begun nobody died
  redis.call('HINCRBY', key(c), 'tries', 1)
end
put(c, ch)
return { 'OK', ring_due() }
