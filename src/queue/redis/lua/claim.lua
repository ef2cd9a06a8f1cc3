-- ARGV: maximum ids, maximum bulk ids, slice. Then per lane group, in the order of service: maximum ids, whether bulk ids may use reserved
-- slots (1 or 0), number of lanes, the lanes in the order of service. Returns id, lane, set, id, lane, set, ..
local left, bulk_left, slice = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

-- Due ids go before ids that never waited. The slice bounds the length of one call if many ids are due at once.
local due = redis.call('ZRANGEBYSCORE', delayed_key, '-inf', now_ms(), 'LIMIT', 0, slice)
for _, id in ipairs(due) do
  redis.call('ZREM', delayed_key, id)
  local state, set, lane = whereabouts(id)
  if state == 'd' then
    count_delayed(lane, -1)
    ready_after_wait(id, lane, set)
  end
end

local claimed, turns_key = {}, prefix .. ':turns'

local function remove(popped, lane, set)
  for at = 1, #popped, 2 do
    local id = popped[at]
    redis.call('HDEL', ids_key, id)
    claimed[#claimed + 1] = id
    claimed[#claimed + 1] = lane
    claimed[#claimed + 1] = set
  end
end

-- Claims up to `want` ids of a lane: interactive first, but every tenth from bulk if there is one.
local function take(lane, want, share)
  local interactive, bulk = ready_key(lane, 'i'), ready_key(lane, 'b')
  local has_i, has_b = redis.call('ZCARD', interactive), redis.call('ZCARD', bulk)
  if has_i + has_b == 0 then return end
  local turn = tonumber(redis.call('HGET', turns_key, lane) or '0')
  local take_i, take_b, bulk_room = 0, 0, share.takes_kept and want or bulk_left
  while take_i + take_b < want do
    local can_i, can_b = take_i < has_i, take_b < has_b and take_b < bulk_room
    if can_b and (turn == 9 or not can_i) then
      take_b = take_b + 1
    elseif can_i then
      take_i = take_i + 1
    else
      break
    end
    turn = (turn + 1) % 10
  end
  if take_i > 0 then remove(redis.call('ZPOPMIN', interactive, take_i), lane, 'i') end
  if take_b > 0 then remove(redis.call('ZPOPMIN', bulk, take_b), lane, 'b') end
  left, share.left = left - take_i - take_b, share.left - take_i - take_b
  if not share.takes_kept then bulk_left = bulk_left - take_b end
  if take_i == has_i and take_b == has_b then
    redis.call('HDEL', turns_key, lane)
  else
    redis.call('HSET', turns_key, lane, turn)
  end
end

-- Each lane of a group gets an equal part. Unused parts go to the other lanes in the same order.
local at = 4
while at <= #ARGV do
  local share = { left = math.min(tonumber(ARGV[at]), left), takes_kept = ARGV[at + 1] == '1' }
  local first, last = at + 3, at + 2 + tonumber(ARGV[at + 2])
  for n = first, last do
    if share.left <= 0 then break end
    take(ARGV[n], math.ceil(share.left / (last - n + 1)), share)
  end
  for n = first, last do
    if share.left <= 0 then break end
    take(ARGV[n], share.left, share)
  end
  at = last + 1
end

-- More ids became ready than were claimed: other workers may have free slots.
if #due > #claimed / 3 then wake() end
return claimed
