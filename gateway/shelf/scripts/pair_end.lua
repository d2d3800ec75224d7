-- end(id, person, said) -> OK | DONE | NONE
if made_before(ARGV[1]) then
  return 'DONE'
end
must_be('hash', P .. 'paired')
local before = redis.call('HGET', P .. 'paired', ARGV[2])
if not before then
  return 'NONE'
end
audit(ARGV[3], before, '')
redis.call('HDEL', P .. 'paired', ARGV[2])
made(ARGV[1], ARGV[2])
return 'OK'
