-- drop(letter, act) -> verdict
-- A dead letter is not listed any more, with all that went wrong in its turn. What was said stays in its conversation.
local letter, act = ARGV[2], ARGV[3]
if was_done(act, letter) then
  return 'OK'
end
local all = letters_of(letter)
if #all == 0 then
  return 'GONE'
end
do_away(act, letter, all)
return 'OK'
