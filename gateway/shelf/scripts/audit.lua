-- audit(said, before, after, id): something that changed nothing, such as a refusal; an id is told of once
if ARGV[4] == '' or first_time(ARGV[4]) then
  audit(ARGV[1], ARGV[2], ARGV[3])
end
return 'OK'
