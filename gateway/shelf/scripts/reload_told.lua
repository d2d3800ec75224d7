-- told(id, said, snapshot) -> the snapshot that the reload before this one told of
-- That one is kept until the next reload, so that what changed on its own in between is told as well. Where a later one
-- was told of already, by somebody who was quicker, nothing is left to tell.
local new = whole(ARGV[3], 0)
local known = made_before('told ' .. ARGV[1])
if known then
  return whole(known, new)
end
must_be('hash', P .. 'meta')
local meta = redis.call('HMGET', P .. 'meta', 'told', 'snapshot')
local current = whole(meta[2], 0)
local told = math.min(whole(meta[1], new), current) -- none is later than what is in force, unless Redis lost that number
local before = math.min(told, new)

audit(ARGV[2], 'snapshot ' .. text(before), 'snapshot ' .. text(new))
if told < new and told ~= current then
  redis.call('EXPIRE', P .. 'snapshot:' .. text(told), '3600')
end
if told <= new then
  redis.call('HSET', P .. 'meta', 'told', text(new))
  redis.call('PERSIST', P .. 'snapshot:' .. text(new))
end
made('told ' .. ARGV[1], text(before))
return before
