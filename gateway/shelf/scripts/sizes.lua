-- sizes(bundle...) -> bytes of each as it lies here, 0 for one that does not
local sizes = {}
for i, bundle in ipairs(ARGV) do
  local size = redis.pcall('STRLEN', P .. 'bundle:' .. bundle)
  sizes[i] = type(size) == 'number' and size or 0
end
return sizes
