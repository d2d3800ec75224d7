-- put(bundle, packed): a bundle that nobody names yet is kept for a day
local key = P .. 'bundle:' .. ARGV[1]
if redis.call('HEXISTS', P .. 'refs', ARGV[1]) == 1 then
  redis.call('SET', key, ARGV[2], 'NX')
elseif not redis.call('SET', key, ARGV[2], 'NX', 'EX', '86400') then
  if redis.call('TTL', key) >= 0 then
    redis.call('EXPIRE', key, '86400')
  end
end
return 'OK'
