-- ARGV: owner, id, lane, set, delay in ms.
local state, _, _, holder = whereabouts(ARGV[2])
if state == 'l' and holder == ARGV[1] then
  redis.call('ZREM', leases_key, ARGV[2])
  delay(ARGV[2], ARGV[3], ARGV[4], now_ms() + tonumber(ARGV[5]))
end
return 1
