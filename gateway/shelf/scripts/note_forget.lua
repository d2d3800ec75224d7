-- forget(scope, id, limits, said, change, from, to) -> OK note | DECIDED note
-- Reject (pending -> rejected) and revert (kept -> reverted). What an overwriting note replaced is back.
local N, id, L, change = scope_of(ARGV[1]), ARGV[2], cjson.decode(ARGV[3]), ARGV[5]
if field(N, id, 'change') == change then
  return {'OK', note(N, id)}
end
must_be_notes_of(N, id)
if state_now(N, id, L) ~= ARGV[6] then
  return {'DECIDED', note(N, id)}
end
local before = described(N, id)
audit(ARGV[4], before, ARGV[7] .. string.sub(before, #ARGV[6] + 1))
redis.call('HSET', N .. 'note:' .. id, 'change', change)
forget(N, id, ARGV[7], L)
if ARGV[6] == 'kept' then
  tidy(N, field(N, id, 'skill_key'), field(N, id, 'file_key'), L)
end
return {'OK', note(N, id)}
