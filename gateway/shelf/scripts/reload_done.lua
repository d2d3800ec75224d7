-- done(name, wish): the folders were looked at since this wish
if redis.call('GET', P .. 'packer') ~= ARGV[1] then
  return 'LOST'
end
redis.call('HSET', P .. 'meta', 'done', ARGV[2])
return 'OK'
