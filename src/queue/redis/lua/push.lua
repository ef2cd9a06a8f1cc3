-- ARGV, per id: id, lane, set, delay in ms (-1: ready, at the back; -2: ready, in front). Skips ids that are already queued, with these
-- exceptions: a ready id moves to another lane or from bulk to interactive, and a delayed id that is due becomes ready. Lost set entries (a
-- set deleted by hand) don't count.
local now, woke = now_ms(), false
for at = 1, #ARGV, 4 do
  local id, lane, set, wait = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local state, old_set, old_lane = whereabouts(id)
  local held = false
  if state == 'r' then
    held = redis.call('ZSCORE', ready_key(old_lane, old_set), id)
  elseif state == 'd' then
    held = redis.call('ZSCORE', delayed_key, id)
    if held and wait < 0 then
      -- The row became due early because its wait has ended.
      redis.call('ZREM', delayed_key, id)
      if old_set == 'i' then set = 'i' end
      held = false
    end
    if not held then count_delayed(old_lane, -1) end
  end
  if held and state == 'r' and wait < 0 and (old_lane ~= lane or (old_set == 'b' and set == 'i')) then
    redis.call('ZREM', ready_key(old_lane, old_set), id)
    if old_set == 'i' then set = 'i' end
    held = false
  end
  if not held then
    if wait < 0 then
      if wait == -2 then ready_in_front(id, lane, set) else ready_at_back(id, lane, set) end
      woke = true
    else
      delay(id, lane, set, now + wait)
    end
  end
end
if woke then wake() end
return 1
