-- ARGV: per id: id, lane, set, delay in ms (-1: ready at once). Ids that the queue holds are skipped, but an
-- interactive push moves a ready bulk id over. A place that was lost (a set deleted by hand) counts as not held.
local now, woke = now_ms(), false
for at = 1, #ARGV, 4 do
  local id, lane, set, wait = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local state, old_set, old_lane = whereabouts(id)
  local held = false
  if state == 'r' then
    held = redis.call('ZSCORE', ready_key(old_lane, old_set), id)
  elseif state == 'd' then
    held = redis.call('ZSCORE', delayed_key, id)
    if not held then count_delayed(old_lane, -1) end
  elseif state == 'l' then
    held = redis.call('ZSCORE', leases_key, id)
  end
  if held and state == 'r' and old_set == 'b' and set == 'i' and wait < 0 then
    redis.call('ZREM', ready_key(old_lane, old_set), id)
    held = false
  end
  if not held then
    if wait < 0 then
      ready_at_back(id, lane, set)
      woke = true
    else
      delay(id, lane, set, now + wait)
    end
  end
end
if woke then wake() end
return 1
