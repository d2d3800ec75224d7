-- append(c, token, rev, wid, turn, finished, begin, n records, n rows, record..., (key, row, state)..., uses) -> verdict
-- `begin` ('' leaves it): what counts of the history begins there from now on.
local c = ARGV[2]
local verdict = guard(c, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if verdict ~= 'OK' then
  return verdict
end
local at = push(c, 11, tonumber(ARGV[9]))
note_uses(c, ARGV[set_rows(c, at, tonumber(ARGV[10]))])
set_turn(c, ARGV[6])
if ARGV[7] == '1' then
  redis.call('HDEL', key(c), 'tries') -- a finished step: whatever killed earlier holders, this was not it
end
if ARGV[8] ~= '' then
  redis.call('HSET', key(c), 'begin', ARGV[8])
end
advance(c, tonumber(ARGV[4]), ARGV[5])
return verdict
