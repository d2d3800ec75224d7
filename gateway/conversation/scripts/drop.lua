-- drop(letter, act) -> verdict
-- A dead letter is not listed any more. What was said stays in its conversation.
local letter, act = ARGV[2], ARGV[3]
if was_done(act, letter) then
  return 'OK'
end
local found = redis.call('XRANGE', P .. 'dead', letter, letter)[1]
if not found then
  return 'GONE'
end
redis.call('XDEL', P .. 'dead', letter) -- first: a full server lets it through, and with it what is kept of it
done(act, found)
return 'OK'
