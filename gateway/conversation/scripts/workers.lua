-- workers(seen_ms) -> names of those that were heard of lately
return redis.call('ZRANGEBYSCORE', P .. 'workers', text(now - tonumber(ARGV[2])), '+inf')
