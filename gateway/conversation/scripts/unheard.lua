-- unheard(worker, token...) -> ring. These tokens are all that the worker holds: what else was granted to it, it has not heard of,
-- since the answer was lost on the way. It goes back to ready, and nobody died of it.
go_on_when_full()
local heard, back = {}, false
for i = 3, #ARGV do
  heard[ARGV[i]] = true
end
for _, c in ipairs(redis.call('ZRANGE', P .. 'due', 0, -1)) do
  local h = redis.call('HMGET', key(c), 'token', 'worker')
  if h[1] and h[2] == ARGV[2] and not heard[h[1]] then
    local ch = channel_of(c)
    free(c, ch)
    put(c, ch)
    back = true
  end
end
return back and ring_due() or 0
