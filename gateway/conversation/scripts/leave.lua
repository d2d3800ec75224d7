-- leave(worker): this worker ends.
return redis.call('ZREM', P .. 'workers', ARGV[2])
