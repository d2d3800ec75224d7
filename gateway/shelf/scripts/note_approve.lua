-- approve(scope, id, limits, said, change) -> OK note | DECIDED note | CHANGED note replaced... | as for save
local N, id, L, change = scope_of(ARGV[1]), ARGV[2], cjson.decode(ARGV[3]), ARGV[5]
if field(N, id, 'change') == change then
  return {'OK', note(N, id)} -- this very change is in already
end
if field(N, id, 'state') ~= 'pending' then
  return {'DECIDED', note(N, id)}
end
must_be_notes_of(N, id)
local h = redis.call('HMGET', N .. 'note:' .. id, 'skill_key', 'file_key', 'looks', 'bytes', 'overwrite', 'seen', 'shown')
local overwrite, at = h[5] == '1', h[1] .. ':' .. h[2]
if overwrite and (h[6] ~= replaced_now(N, at) or h[7] == change) then
  -- The approver saw another difference. Shown the one of now, they may say so again.
  redis.call('HSET', N .. 'note:' .. id, 'seen', replaced_now(N, at), 'shown', change)
  return with_notes(N, 'CHANGED', id, (standing(N, at)))
end
local why = no_room(N, h[1], h[2], h[3], whole(h[4], 0), overwrite, L)
if why then
  return why
end
local before = described(N, id)
audit(ARGV[4], before, (string.gsub(before, '^pending', 'kept')))
join(N, id, L)
redis.call('HSET', N .. 'note:' .. id, 'change', change)
return {'OK', note(N, id)}
