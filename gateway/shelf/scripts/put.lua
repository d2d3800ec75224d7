-- put(bundle, packed): a bundle that nobody names yet is kept for a day
if not redis.call('SET', P .. 'bundle:' .. ARGV[1], ARGV[2], 'NX', 'EX', '86400') then
  if redis.call('TTL', P .. 'bundle:' .. ARGV[1]) >= 0 then
    redis.call('EXPIRE', P .. 'bundle:' .. ARGV[1], '86400')
  end
end
return 'OK'
