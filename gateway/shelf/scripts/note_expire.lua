-- expire(scope, id, limits, said, change, until) -> OK note | DECIDED note | SINCE note
-- `until` in ms of the server's clock, or empty: it has no end.
local N, id, L, change = scope_of(ARGV[1]), ARGV[2], cjson.decode(ARGV[3]), ARGV[5]
local done = made_before(change)
if done then -- this very change is in already; its end may be another one since
  return {done == field(N, id, 'until') and 'OK' or 'SINCE', note(N, id)}
end
must_be_notes_of(N, id)
if state_now(N, id, L) ~= 'kept' then
  return {'DECIDED', note(N, id)}
end
local before = field(N, id, 'until')
audit(ARGV[4], 'until ' .. before, 'until ' .. ARGV[6])
redis.call('HSET', N .. 'note:' .. id, 'change', change, 'until', ARGV[6])
tidy(N, field(N, id, 'skill_key'), field(N, id, 'file_key'), L)
made(change, ARGV[6])
return {'OK', note(N, id)}
