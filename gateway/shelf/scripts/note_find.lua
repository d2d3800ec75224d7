-- find(scope, code) -> note, or nothing
local N = scope_of(ARGV[1])
local id = redis.call('GET', N .. 'code:' .. ARGV[2])
if not id then
  return {}
end
local h, ended = note(N, id), field(N, id, 'state') == 'kept' and has_ended(field(N, id, 'until'))
for i = 1, ended and #h or 0, 2 do -- as it will be once its file is tidied
  h[i + 1] = h[i] == 'state' and 'expired' or h[i] == 'text' and '' or h[i + 1]
end
return h
