-- in_hand(c, token, bytes, rows) -> nothing where the claim is lost; else parts, open turn, where what waits first is, its event,
-- and key, state, body of each row that is open. Looks only, and gives so many bytes of each, and so many rows.
-- Where it is: `control`, the number of a member of the inbox, or nothing.
local c, most = ARGV[2], tonumber(ARGV[4])
local h = redis.call('HMGET', key(c), 'token', 'parts', 'turn')
if h[1] ~= ARGV[3] then
  return {}
end
local function head(text)
  return string.sub(text or '', 1, most)
end
local where, event = '', redis.call('LINDEX', key(c, 'control'), 0)
if event then
  where = 'control'
else
  local member = redis.call('ZRANGE', key(c, 'inbox'), 0, 0)[1] or ''
  where, event = string.sub(member, 1, 12), string.sub(member, 14, 13 + most)
end
local rows, states = {}, redis.call('HGETALL', key(c, 'states'))
for i = 1, #states, 2 do
  if is_unsent(states[i + 1]) and #rows < 3 * tonumber(ARGV[5]) then
    rows[#rows + 1] = states[i]
    rows[#rows + 1] = states[i + 1]
    rows[#rows + 1] = head(redis.call('HGET', key(c, 'outbox'), states[i]))
  end
end
return { head(h[2]), head(h[3]), where, head(event), rows }
