-- renew(c, token, c, token, ...) -> lost c's, c's with control or inbox not empty, now
go_on_when_full()
local lost, news = {}, {}
for i = 2, #ARGV, 2 do
  local c = ARGV[i]
  if redis.call('HGET', key(c), 'token') ~= ARGV[i + 1] then
    lost[#lost + 1] = c
  else
    redis.call('ZADD', P .. 'due', text(now + S.lease_ms), c)
    if redis.call('EXISTS', key(c, 'control'), key(c, 'inbox')) > 0 then
      news[#news + 1] = c
    end
  end
end
return { lost, news, now }
