-- Runs each command of the other scripts on keys of its own, because an ACL may forbid any of them.
local set, hash = prefix .. ':probe:set', prefix .. ':probe:hash'
redis.call('ZADD', set, 1, 'a', 2, 'b')
redis.call('ZRANGEBYSCORE', set, '-inf', now_ms(), 'LIMIT', 0, 1)
redis.call('ZSCORE', set, 'a')
redis.call('ZREM', set, 'a')
redis.call('ZPOPMIN', set)
redis.call('ZCARD', set)
redis.call('HSET', hash, 'a', 1)
redis.call('HINCRBY', hash, 'a', 1)
redis.call('HGET', hash, 'a')
redis.call('HDEL', hash, 'a')
redis.call('PUBLISH', prefix .. ':probe', '1')
