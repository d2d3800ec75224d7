-- bury(c, token, rev, wid, turn id, reason, closes, n records, n rows, record..., rows..., uses)
-- -> verdict, entries of other letters that were forgotten for this one
-- The dead letter names conversation and turn; what was said stays in the conversation's own history.
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return { verdict, 0 }
end
redis.call('XADD', P .. 'dead', '*', 'conversation', c, 'turn', ARGV[6], 'reason', ARGV[7])
local forgotten = redis.call('XTRIM', P .. 'dead', 'MAXLEN', '~', 10000)
local at = push(c, 11, tonumber(ARGV[9]))
note_uses(c, ARGV[set_rows(c, at, tonumber(ARGV[10]))])
redis.call('HDEL', key(c), 'tries', 'waits')
if ARGV[8] == '1' then
  redis.call('HDEL', key(c), 'turn')
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return { verdict, forgotten }
