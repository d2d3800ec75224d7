-- read(channel, skill key, wanted) -> (note...) of that file; where no file of notes is called so, of each file in that
-- folder (or anywhere, for an empty name) the last note, without its text. First those of all channels.
local found = {}
local skill, wanted = ARGV[2], ARGV[3]
local scopes = {scope_of('all'), scope_of(ARGV[1])}
for _, N in ipairs(scopes) do
  for _, id in ipairs((standing(N, skill .. ':' .. wanted))) do
    found[#found + 1] = note(N, id)
  end
end
if #found > 0 then
  return found
end
local inside = wanted == '' and '' or wanted .. '/'
for _, N in ipairs(scopes) do
  for _, file in ipairs(redis.call('HKEYS', N .. 'files:' .. skill)) do
    local id = string.sub(file, 1, #inside) == inside and newest(N, skill .. ':' .. file)
    if id then
      local last = note(N, id)
      for i = 1, #last, 2 do
        if last[i] == 'text' then
          last[i + 1] = ''
        end
      end
      found[#found + 1] = last
    end
  end
end
return found
