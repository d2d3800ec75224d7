-- retry(c, ch, letter, act, event...) -> verdict
-- What the turn of a dead letter answered comes into the inbox once more, and all letters of that turn are gone: both or none.
if cold() then
  return 'COLD'
end
local c, letter, act = ARGV[2], ARGV[4], ARGV[5]
if was_done(act, letter) then
  return 'OK'
end
local found = redis.call('XRANGE', P .. 'dead', letter, letter)[1]
if not found then
  return 'GONE'
end
local function turn_of(entry)
  local at = {}
  for i = 1, #entry[2], 2 do
    at[entry[2][i]] = entry[2][i + 1]
  end
  return (at.conversation or '') .. ' ' .. (at.turn or '')
end
if full(c, #ARGV - 5) then
  return 'FULL'
end
redis.call('HSET', key(c), 'channel', ARGV[3]) -- first: a full server stops it here, or not at all
for i = 6, #ARGV do
  enqueue(c, arrive(c), now, ARGV[i])
end
for _, entry in ipairs(redis.call('XRANGE', P .. 'dead', '-', '+')) do -- some thousands at most, and seldom
  if turn_of(entry) == turn_of(found) then
    redis.call('XDEL', P .. 'dead', entry[1])
  end
end
call_for(c, ARGV[3], 0)
done(act, found)
return 'OK'
