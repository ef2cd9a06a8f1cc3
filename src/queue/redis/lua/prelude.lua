-- Shared prelude of all scripts. All keys have one hash tag, so that a cluster stores a queue in one slot.
--
-- The hash `ids` stores the state of each id. An id that leaves the queue is deleted from it:
--   r<i|b><lane>   ready; in the ZSET ready:<lane>:<i|b>
--   d<i|b><lane>   delayed; in the ZSET delayed, scored by due time
local prefix = KEYS[1]
local ids_key, delayed_key = prefix .. ':ids', prefix .. ':delayed'
local waits_key, order_key = prefix .. ':waits', prefix .. ':order'

local function ready_key(lane, set) return prefix .. ':ready:' .. lane .. ':' .. set end

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Returns the state, set and lane of an id; nil if it isn't in the queue.
local function whereabouts(id)
  local at = redis.call('HGET', ids_key, id)
  if not at then return nil end
  return at:sub(1, 1), at:sub(2, 2), at:sub(3)
end

-- Adds to the lane's count of delayed ids and deletes a field that reaches zero.
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

-- Places ids whose wait has ended before those at the front and the back, in the order of their due times. Doubles represent integers up to
-- 9e15 exactly.
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

