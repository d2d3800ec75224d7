-- meta() -> epoch, adopted; nothing when Redis is empty. Looks only.
local meta = redis.call('HMGET', P .. 'meta', 'epoch', 'adopted')
if not meta[1] then
  return {}
end
return { meta[1], tonumber(meta[2] or 0) }
