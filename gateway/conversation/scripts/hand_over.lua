-- hand_over(c, token, counts) -> verdict, ring. Asks for no revision: whoever lost track gives back what it holds.
local c = ARGV[2]
if redis.call('HGET', key(c), 'token') ~= ARGV[3] then
  return { 'FENCED', 0 }
end
go_on_when_full()
local ch = channel_of(c)
free(c, ch)
if ARGV[4] == '1' then
  redis.call('HINCRBY', key(c), 'tries', 1)
end
put(c, ch)
return { 'OK', ring_due() }
