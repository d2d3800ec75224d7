-- refused(said, id, most): a line about something that changed nothing, such as a refusal; an id is told of once
-- They have a stream of their own, of about so many lines: whoever is refused again and again fills nothing up, and pushes
-- no change out.
if ARGV[2] == '' or not made_before(ARGV[2]) then
  keep('refused', ARGV[1], '', '', ARGV[3])
  if ARGV[2] ~= '' then
    made(ARGV[2], 'told')
  end
end
return 'OK'
