-- settings(known before, known now, said, before, after) -> OK | OTHER: what the files say is this now
-- Nobody is told of the first time: nothing has changed then.
local known = redis.call('GET', P .. 'settings') or ''
if known ~= ARGV[1] then
  return 'OTHER'
end
if known ~= '' then
  audit(ARGV[3], ARGV[4], ARGV[5])
end
redis.call('SET', P .. 'settings', ARGV[2])
return 'OK'
