-- noted(said, id, before, after): a line about something that is stored elsewhere; an id has one
if ARGV[2] == '' or not made_before(ARGV[2]) then
  audit(ARGV[1], ARGV[3], ARGV[4])
  if ARGV[2] ~= '' then
    made(ARGV[2], 'noted')
  end
end
return 'OK'
