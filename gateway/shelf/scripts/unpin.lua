-- unpin(tool, said) -> 1, or 0 if it was not approved
local pin = redis.call('HGET', P .. 'pins', ARGV[1])
if not pin then
  return 0
end
audit(ARGV[2], cjson.decode(pin).hash, '')
redis.call('HDEL', P .. 'changed', ARGV[1])
return redis.call('HDEL', P .. 'pins', ARGV[1])
