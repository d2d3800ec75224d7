-- pin(tool, said, what is approved): its root is that of tools of servers, and so is its log
local pin = redis.call('HGET', P .. 'pins', ARGV[1])
audit(ARGV[2], pin and cjson.decode(pin).hash, cjson.decode(ARGV[3]).hash)
redis.call('HSET', P .. 'pins', ARGV[1], ARGV[3])
redis.call('HDEL', P .. 'changed', ARGV[1])
return 'OK'
