-- take(c, token, rev, wid, turn, turn id, n control, n members, n withdrawn, n records, n rows, member..., record..., rows...)
-- -> verdict
-- The chosen members of the inbox and the first of control become records, in one script with the turn that holds them; the
-- withdrawn ones, behind the others, with a type of their own. They wait in the inbox, or in control (without a number).
local c, turn_id, controls, members = ARGV[2], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return verdict
end
for _ = 1, controls do
  local event = redis.call('LPOP', key(c, 'control'))
  if event then
    note(c, 'event', turn_id, event)
  end
end
local at, all = 13, members + tonumber(ARGV[10])
for i = 0, all - 1 do
  local one = ARGV[at + i]
  if redis.call('ZREM', key(c, 'inbox'), one) == 1 then
    note(c, i < members and 'event' or 'withdrawn', turn_id, string.sub(one, 14))
  elseif i >= members and redis.call('LREM', key(c, 'control'), 1, one) == 1 then
    note(c, 'withdrawn', turn_id, one)
  end
end
at = push(c, at + all, tonumber(ARGV[11]))
set_rows(c, at, tonumber(ARGV[12]))
set_turn(c, ARGV[6])
advance(c, tonumber(ARGV[4]), ARGV[5])
return verdict
