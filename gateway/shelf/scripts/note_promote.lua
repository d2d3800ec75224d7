-- promote(scope, id, limits, said, change, code...) -> OK note (of all channels) | DECIDED note | as for save
local N, id, L, change = scope_of(ARGV[1]), ARGV[2], cjson.decode(ARGV[3]), ARGV[5]
local A = scope_of('all')
if field(A, id, 'promotion') == change then
  return {'OK', note(A, id)}
end
must_be_notes_of(N, id)
if state_now(N, id, L) ~= 'kept' then
  return {'DECIDED', note(N, id)}
end
local h = redis.call('HMGET', N .. 'note:' .. id, 'skill_key', 'file_key', 'looks', 'bytes')
must_be_notes(A, h[1], h[2])
local why = no_room(A, h[1], h[2], h[3], whole(h[4], 0), false, L)
if why then
  return why
end
local code = free_code(A, {unpack(ARGV, 6)})
audit(ARGV[4], described(N, id), 'promoted ' .. code)
redis.call('HSET', A .. 'note:' .. id, unpack(note(N, id)))
redis.call('HSET', A .. 'note:' .. id, 'code', code, 'overwrite', '0', 'promotion', change)
redis.call('SET', A .. 'code:' .. code, id)
join(A, id, L)
close(N, id, 'promoted', L) -- here it is read among those of all channels
tidy(N, h[1], h[2], L)
return {'OK', note(A, id)}
