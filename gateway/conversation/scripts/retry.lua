-- retry(c, ch, letter, act, event...) -> verdict
-- What the turn of a dead letter answered comes into the inbox once more, and the letter is gone, with all of its entries: both or none.
if cold() then
  return 'COLD'
end
local c, letter, act = ARGV[2], ARGV[4], ARGV[5]
if was_done(act, letter) then
  return 'OK'
end
local all = letters_of(letter)
if #all == 0 then
  return 'GONE'
end
if redis.call('HEXISTS', key(c), 'parts') == 0 then
  return 'FORGOTTEN' -- meanwhile: nobody could work on a conversation of which only this is known
end
if full(c, #ARGV - 5) then
  return 'FULL'
end
redis.call('HSET', key(c), 'channel', ARGV[3]) -- first: a full server stops it here, or not at all
for i = 6, #ARGV do
  enqueue(c, arrive(c), now, ARGV[i])
end
do_away(act, letter, all)
call_for(c, ARGV[3], 0)
return 'OK'
