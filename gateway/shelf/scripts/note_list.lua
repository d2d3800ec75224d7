-- list(scope, waiting or kept, from, to) -> note..., newest first; one that another stands in the place of says so
local N = scope_of(ARGV[1])
local found, shown = {}, {}
for _, id in ipairs(redis.call('ZREVRANGE', N .. ARGV[2], ARGV[3], ARGV[4])) do
  local at = place(N, id)
  if not shown[at] then
    shown[at] = {}
    for _, one in ipairs((standing(N, at))) do
      shown[at][one] = true
    end
  end
  if not has_ended(field(N, id, 'until')) then
    local h = note(N, id)
    if ARGV[2] == 'kept' and not shown[at][id] then
      for i = 1, #h, 2 do
        h[i + 1] = h[i] == 'state' and 'replaced' or h[i + 1]
      end
    end
    found[#found + 1] = h
  end
end
return found
