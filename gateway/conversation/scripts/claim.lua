-- claim(worker, places, by_bell) -> 'OK', grants (c, token, rev, tries, begin), ring, wait_ms (-1: nothing is due), now
if cold() then
  return { 'COLD', {}, 0, -1, now }
end
go_on_when_full()
if ARGV[4] == '1' then
  redis.call('DEL', P .. 'bell') -- first, so that whoever accepts after this rings anew
end
return grant(ARGV[2], tonumber(ARGV[3]))
