-- ARGV: lane. Returns the number of interactive, bulk and delayed ids.
return {
  redis.call('ZCARD', ready_key(ARGV[1], 'i')),
  redis.call('ZCARD', ready_key(ARGV[1], 'b')),
  tonumber(redis.call('HGET', waits_key, ARGV[1]) or '0'),
}
