-- ARGV: owner, ids. Only the lease's owner may end it.
for at = 2, #ARGV do
  local id = ARGV[at]
  local state, _, _, holder = whereabouts(id)
  if state == 'l' and holder == ARGV[1] then
    redis.call('ZREM', leases_key, id)
    redis.call('HDEL', ids_key, id)
  end
end
return 1
