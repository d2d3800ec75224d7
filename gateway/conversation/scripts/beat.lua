-- beat(worker, keep_ms): this worker is there. By the server's clock, so that no worker's own can hide the others.
go_on_when_full()
redis.call('ZADD', P .. 'workers', text(now), ARGV[2])
redis.call('ZREMRANGEBYSCORE', P .. 'workers', '-inf', text(now - tonumber(ARGV[3])))
return 1
