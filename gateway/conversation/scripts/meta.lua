-- meta(known epoch, notes) -> epoch, schema, partitions ('': Redis is empty), follows, strangers, now
-- follows, 1: it is the epoch that is known, or goes on for that one. With `notes` who knows another one leaves word of it,
-- so that nobody begins anew meanwhile, and so that an operator's word is for it too. Else this looks only.
local known, follows = ARGV[2], false
local meta = redis.call('HMGET', P .. 'meta', 'epoch', 'schema', 'partitions', 'adopted', 'instead')
if meta[1] then
  local any = meta[4] == '1' and not meta[5] -- an earlier version adopted it, and did not say for which one
  follows = known == '' or known == meta[1] or any
    or (meta[5] and string.find(' ' .. meta[5] .. ' ', ' ' .. known .. ' ', 1, true))
end
if known ~= '' and not follows and ARGV[3] == '1' then
  redis.pcall('HSET', P .. 'strangers', known, text(now)) -- a server that is full, or may not be written, still answers
  redis.pcall('PEXPIRE', P .. 'strangers', '3600000')
end
local strangers = redis.call('EXISTS', P .. 'strangers')
return { meta[1] or '', tonumber(meta[2] or 0), tonumber(meta[3] or 0), follows and 1 or 0, strangers, now }
