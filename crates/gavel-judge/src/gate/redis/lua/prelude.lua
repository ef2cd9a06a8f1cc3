-- Lane of one judge shared by all workers. KEYS[1]: prefix `{gavel:<queue>:gate:<judge>}`. Times are on the Redis clock. ARGV 1-10: member,
-- cap of calls (0: none), lease in ms, failures that open the breaker, its cool-down in ms, configured requests and tokens per minute (0:
-- none), calls in flight, slots acquired, slots wanted. ARGV 11-12: requests and tokens per minute available to workers that can reach
-- Redis.
local base = KEYS[1]
local state_key, members_key = base .. ':state', base .. ':members'
local member, cap, lease_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local threshold, cool_down = tonumber(ARGV[4]), tonumber(ARGV[5])
local configured = { r = tonumber(ARGV[6]), t = tonumber(ARGV[7]), i = 0, o = 0 }
local shared = { r = tonumber(ARGV[11]), t = tonumber(ARGV[12]), i = 0, o = 0 }
local out, have, want = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local METERS = { 'r', 't', 'i', 'o' }
-- Expiry of unused keys.
local KEPT_MS = 3600000
-- As in `meter.rs`: a limit per minute is spread over 61.5 s, no 61.2 s exceed it, and the resolution is 0.1 s.
local SPREAD, WINDOW, GRAIN, BELIEVED = 61500, 61200, 100, 600000

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local state, changed = {}, {}
do
  local fields = redis.call('HGETALL', state_key)
  for at = 1, #fields, 2 do state[fields[at]] = fields[at + 1] end
end

local function get(field) return tonumber(state[field] or '0') end

local function set(field, value)
  local text = type(value) == 'number' and string.format('%.0f', value) or value
  if state[field] ~= text then
    state[field] = text
    changed[field] = text
  end
end

-- A clock that moved back, for example on a promoted replica, would leave all times too far in the future. The state is reset, and workers
-- report their local state again.
local seen = get('seen')
if now < seen - 1000 then
  redis.call('DEL', state_key, members_key)
  for _, meter in ipairs(METERS) do redis.call('DEL', base .. ':' .. meter) end
  state, changed, seen = {}, {}, 0
end
if now - seen > 500 then set('seen', now) end
if not state.born then set('born', now) end
if not state.breaker then set('breaker', 'c') end

-- Members: expiry, slots, calls in flight, slots wanted. Members that are silent for a lease are removed.
local others_have, others_out, members = 0, 0, 1
local others = {}
do
  local fields = redis.call('HGETALL', members_key)
  for at = 1, #fields, 2 do
    local expires, has, is_out, wants = string.match(fields[at + 1], '^(%d+):(%d+):(%d+):(%d+)$')
    if tonumber(expires) <= now then
      redis.call('HDEL', members_key, fields[at])
    elseif fields[at] ~= member then
      others[#others + 1] = { name = fields[at], has = tonumber(has), wants = tonumber(wants) }
      others_have, others_out = others_have + tonumber(has), others_out + tonumber(is_out)
      members = members + 1
    end
  end
end

-- The probe ends with its member. The next call may be the probe.
if state.breaker == 'h' and redis.call('HEXISTS', members_key, state.prober) == 0 then
  set('breaker', 'o')
  set('until', now)
end

local function grains_key(meter) return base .. ':' .. meter end

-- Removes usage older than the window.
local function forget(meter)
  local head, cutoff = get('head' .. meter), math.floor((now - WINDOW) / GRAIN) - 1
  if get('sum' .. meter) == 0 or head > cutoff then
    if head < cutoff then set('head' .. meter, cutoff) end
    return
  end
  if cutoff - head > 1000 then
    redis.call('DEL', grains_key(meter))
    set('sum' .. meter, 0)
  else
    local gone, names = 0, {}
    for grain = head, cutoff do names[#names + 1] = string.format('%.0f', grain) end
    for _, amount in ipairs(redis.call('HMGET', grains_key(meter), unpack(names))) do
      if amount then gone = gone + tonumber(amount) end
    end
    redis.call('HDEL', grains_key(meter), unpack(names))
    set('sum' .. meter, math.max(0, get('sum' .. meter) - gone))
  end
  set('head' .. meter, cutoff + 1)
end

for _, meter in ipairs(METERS) do forget(meter) end

-- Adds `amount` at time `at`. Negative if a call used less than its reservation.
local function count(meter, at, amount)
  local grain = math.floor(at / GRAIN)
  if amount == 0 or grain < get('head' .. meter) then return end
  local name = string.format('%.0f', grain)
  local before = tonumber(redis.call('HGET', grains_key(meter), name) or '0')
  local after = math.max(0, before + amount)
  redis.call('HSET', grains_key(meter), name, string.format('%.0f', after))
  set('sum' .. meter, get('sum' .. meter) + after - before)
end

local function learned(meter)
  if now - get('heard' .. meter) < BELIEVED then return get('learned' .. meter) end
  return 0
end

local function least(meter, stated)
  local said = learned(meter)
  if stated > 0 and said > 0 then return math.min(stated, said) end
  if stated > 0 then return stated end
  if said > 0 then return said end
  return nil
end

-- Returns the limit of all departures within a minute, or nil without one.
local function limit_of(meter) return least(meter, configured[meter]) end

-- Returns the rate of the spacing. Workers that can't reach Redis use the rest of the limit.
local function rate_of(meter) return least(meter, shared[meter]) end

local function between(meter, amount) return SPREAD * math.min(1, amount / rate_of(meter)) end

local function spreads(meter, limit) return configured[meter] > 0 or get('sum' .. meter) * 2 >= limit end

local function save()
  local fields = {}
  for field, value in pairs(changed) do
    fields[#fields + 1] = field
    fields[#fields + 1] = value
  end
  if #fields > 0 then redis.call('HSET', state_key, unpack(fields)) end
  redis.call('PEXPIRE', state_key, KEPT_MS)
  for _, meter in ipairs(METERS) do
    if get('sum' .. meter) > 0 then redis.call('PEXPIRE', grains_key(meter), KEPT_MS) end
  end
  redis.call('PEXPIRE', members_key, KEPT_MS)
end

local function left(field) return math.max(0, math.ceil(get(field) - now)) end

-- Returns the time until the next departure by spacing.
local function next_left()
  local wait = 0
  for _, meter in ipairs(METERS) do
    local limit = limit_of(meter)
    if limit and spreads(meter, limit) then wait = math.max(wait, left('next' .. meter)) end
  end
  return wait
end

local function answer(slots, allowed, free)
  local breaker = state.breaker == 'c' and 0 or state.breaker == 'o' and 1 or 2
  return {
    now, get('born'), breaker, get('failures'), left('until'), left('throttled'), left('held'), next_left(),
    learned('r'), learned('t'), learned('i'), learned('o'), slots, allowed, free, members
  }
end
