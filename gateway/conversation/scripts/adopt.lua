-- adopt(candidate epoch, schema, partitions, known epoch, is_for_all) -> epoch. The operator says that the data in Redis is
-- what there is: it goes on for what the operator's machine knows, and for what others know that wait for this word.
local candidate, known = ARGV[2], ARGV[5]
local meta = redis.call('HMGET', P .. 'meta', 'epoch', 'instead')
local epoch = meta[1]
if not epoch then
  redis.call('HSET', P .. 'meta', 'epoch', candidate, 'schema', ARGV[3], 'partitions', ARGV[4])
  epoch = candidate
elseif ARGV[6] == '1' and epoch ~= candidate then -- one epoch for all partitions
  redis.call('HSET', P .. 'meta', 'epoch', candidate)
  epoch = candidate
end
local instead, there = meta[2] or '', {}
for word in string.gmatch(instead, '%S+') do
  there[word] = true
end
local all = redis.call('HKEYS', P .. 'strangers')
all[#all + 1], all[#all + 2] = known, meta[1] or ''
for _, one in ipairs(all) do
  if one ~= '' and one ~= epoch and not there[one] then
    there[one], instead = true, instead .. ' ' .. one
  end
end
redis.call('HSET', P .. 'meta', 'adopted', '1', 'instead', instead)
redis.call('DEL', P .. 'strangers')
return epoch
