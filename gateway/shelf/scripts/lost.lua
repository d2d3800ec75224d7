-- lost(bundle...) -> those of these named bundles that are not there; the others stay for as long as they are named
local lost = {}
for _, bundle in ipairs(ARGV) do
  local left = redis.call('TTL', P .. 'bundle:' .. bundle)
  if left == -2 then
    lost[#lost + 1] = bundle
  elseif left >= 0 then
    redis.call('PERSIST', P .. 'bundle:' .. bundle)
  end
end
return lost
