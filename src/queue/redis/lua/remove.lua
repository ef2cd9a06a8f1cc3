-- ARGV: ids in any state.
for at = 1, #ARGV do
  local id = ARGV[at]
  local state, set, lane = whereabouts(id)
  if state == 'r' then redis.call('ZREM', ready_key(lane, set), id) end
  if redis.call('ZREM', delayed_key, id) == 1 and state == 'd' then count_delayed(lane, -1) end
  redis.call('ZREM', leases_key, id)
  redis.call('HDEL', ids_key, id)
end
return 1
