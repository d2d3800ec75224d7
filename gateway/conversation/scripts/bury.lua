-- bury(c, token, rev, wid, turn id, reason, ends, n records, n rows, record..., rows..., uses)
-- -> verdict, entries of other letters that were forgotten for this one
-- `ends`: 1 the open turn; 0 nothing, it is about a part of what is sent; else, as `in_hand` says where it is, what waits first: it
-- becomes a record, and nobody has to read it for that.
-- The dead letter names conversation and turn; what was said stays in the conversation's own history.
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return { verdict, 0 }
end
redis.call('XADD', P .. 'dead', '*', 'conversation', c, 'turn', ARGV[6], 'reason', ARGV[7])
local forgotten = redis.call('XTRIM', P .. 'dead', 'MAXLEN', '~', 10000)
local ends = ARGV[8]
if ends == 'control' then
  local event = redis.call('LPOP', key(c, 'control'))
  if event then
    note(c, 'event', ARGV[6], event)
  end
elseif #ends > 1 then
  for i = 0, redis.call('ZCARD', key(c, 'inbox')) - 1 do -- the first, or what came since is said to be older
    local member = redis.call('ZRANGE', key(c, 'inbox'), i, i)[1]
    if string.sub(member, 1, 12) == ends then
      redis.call('ZREM', key(c, 'inbox'), member)
      note(c, 'event', ARGV[6], string.sub(member, 14))
      break
    end
  end
end
local at = push(c, 11, tonumber(ARGV[9]))
note_uses(c, ARGV[set_rows(c, at, tonumber(ARGV[10]))])
redis.call('HDEL', key(c), 'tries', 'waits')
if ends == '1' then
  redis.call('HDEL', key(c), 'turn')
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return { verdict, forgotten }
