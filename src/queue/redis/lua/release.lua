-- ARGV: owner, ids. The ids go to the front in the given order.
local woke = false
for at = #ARGV, 2, -1 do
  local id = ARGV[at]
  local state, set, lane, holder = whereabouts(id)
  if state == 'l' and holder == ARGV[1] then
    redis.call('ZREM', leases_key, id)
    ready_in_front(id, lane, set)
    woke = true
  end
end
if woke then wake() end
return 1
