-- take(c, token, rev, wid, turn, turn id, n control, n members, n records, n rows, member..., record..., rows...) -> verdict
-- The chosen members of the inbox and the first of control become records, in one script with the turn that holds them.
local c, turn_id, controls, members = ARGV[2], ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9])
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return verdict
end
local function record(event)
  redis.call('RPUSH', key(c, 'history'),
    '{"v":1,"type":"event","at":' .. text(now) .. ',"turn":' .. cjson.encode(turn_id) .. ',"event":' .. event .. '}')
end
for _ = 1, controls do
  local event = redis.call('LPOP', key(c, 'control'))
  if event then
    record(event)
  end
end
local at = 12
for i = at, at + members - 1 do
  if redis.call('ZREM', key(c, 'inbox'), ARGV[i]) == 1 then
    record(string.sub(ARGV[i], 14))
  end
end
at = push(c, at + members, tonumber(ARGV[10]))
set_rows(c, at, tonumber(ARGV[11]))
set_turn(c, ARGV[6])
advance(c, tonumber(ARGV[4]), ARGV[5])
return verdict
