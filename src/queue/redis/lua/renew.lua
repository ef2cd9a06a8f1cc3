-- ARGV: owner, lease in ms, ids. Returns the ids that the owner doesn't lease.
local ends, lost = now_ms() + tonumber(ARGV[2]), {}
for at = 3, #ARGV do
  local id = ARGV[at]
  local state, _, _, holder = whereabouts(id)
  if state == 'l' and holder == ARGV[1] then
    redis.call('ZADD', leases_key, ends, id)
  else
    lost[#lost + 1] = id
  end
end
return lost
