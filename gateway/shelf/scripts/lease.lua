-- lease(name, lease ms) -> 1 if we are the one who packs, snapshot, its hash, 1 if it is there to stay, wanted, done
local holder = redis.call('GET', P .. 'packer')
if not holder then
  redis.call('SET', P .. 'packer', ARGV[1], 'PX', ARGV[2])
elseif holder == ARGV[1] then
  redis.call('PEXPIRE', P .. 'packer', ARGV[2])
end
local meta = redis.call('HMGET', P .. 'meta', 'snapshot', 'hash', 'wanted', 'done')
local number = math.max(0, whole(meta[1], 0))
return {
  (not holder or holder == ARGV[1]) and 1 or 0,
  number,
  meta[2] or '',
  redis.call('TTL', P .. 'snapshot:' .. text(number)) == -1 and 1 or 0,
  whole(meta[3], 0),
  whole(meta[4], 0),
}
