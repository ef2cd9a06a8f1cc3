-- What every script stands on. All keys share one hash tag, so that a cluster keeps a queue in one slot.
--
-- `ids` says where each id is; an id that leaves the queue leaves this hash:
--   r<i|b><lane>                  ready; its place is the ZSET ready:<lane>:<i|b>
--   d<i|b><lane>                  delayed; its place is the ZSET delayed, scored by the time it is due
--   l<i|b><owner, 32 hex><lane>   leased; its place is the ZSET leases, scored by the time the lease ends
local prefix = KEYS[1]
local ids_key, delayed_key, leases_key = prefix .. ':ids', prefix .. ':delayed', prefix .. ':leases'
local waits_key, order_key = prefix .. ':waits', prefix .. ':order'

local function ready_key(lane, set) return prefix .. ':ready:' .. lane .. ':' .. set end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Where an id is: its state, set, lane and owner; nil if the queue doesn't hold it.
local function whereabouts(id)
  local at = redis.call('HGET', ids_key, id)
  if not at then return nil end
  local state, set = at:sub(1, 1), at:sub(2, 2)
  if state == 'l' then return state, set, at:sub(35), at:sub(3, 34) end
  return state, set, at:sub(3), nil
end

-- The lane's count of delayed ids; the field goes when nothing is left.
local function count_delayed(lane, by)
  if redis.call('HINCRBY', waits_key, lane, by) <= 0 then redis.call('HDEL', waits_key, lane) end
end

local function ready_at_back(id, lane, set)
  redis.call('ZADD', ready_key(lane, set), redis.call('HINCRBY', order_key, 'back', 1), id)
  redis.call('HSET', ids_key, id, 'r' .. set .. lane)
end

local function ready_in_front(id, lane, set)
  redis.call('ZADD', ready_key(lane, set), -redis.call('HINCRBY', order_key, 'front', 1), id)
  redis.call('HSET', ids_key, id, 'r' .. set .. lane)
end

-- Before those in front and at the back, in the order in which their waits ended. Doubles hold whole numbers up to 9e15.
local function ready_after_wait(id, lane, set)
  redis.call('ZADD', ready_key(lane, set), redis.call('HINCRBY', order_key, 'waited', 1) - 1e15, id)
  redis.call('HSET', ids_key, id, 'r' .. set .. lane)
end

local function delay(id, lane, set, due_ms)
  redis.call('ZADD', delayed_key, due_ms, id)
  redis.call('HSET', ids_key, id, 'd' .. set .. lane)
  count_delayed(lane, 1)
end

local function wake() redis.call('PUBLISH', prefix .. ':wake', '1') end

