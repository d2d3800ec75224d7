-- beat(worker, keep_ms) -> when it said so last (0: nobody knows), now. This worker is there. By the server's clock, so that no
-- worker's own can hide the others.
go_on_when_full()
local before = tonumber(redis.call('ZSCORE', P .. 'workers', ARGV[2]) or 0)
redis.call('ZREMRANGEBYSCORE', P .. 'workers', '(' .. text(now), '+inf') -- said before the clock was put back; who lives says so anew
redis.call('ZADD', P .. 'workers', text(now), ARGV[2])
redis.call('ZREMRANGEBYSCORE', P .. 'workers', '-inf', text(now - tonumber(ARGV[3])))
return { before, now }
