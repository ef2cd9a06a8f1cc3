-- Admits one call now or within `horizon` ms, or returns the wait. ARGV 13-15: prompt tokens, answer tokens, horizon in ms. Returns the
-- state, then: verdict (0 admitted, 1 admitted as probe, 2 later, 3 closed), wait in ms, departure time.
local input, output, horizon = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
local amounts = { r = 1, t = input + output, i = input, o = output }

-- Keeps the slots of the member.
local known = redis.call('HGET', members_key, member)
local kept = known and string.match(known, '^%d+(:%d+:%d+:%d+)$') or ':0:0:0'
redis.call('HSET', members_key, member, string.format('%.0f', now + lease_ms) .. kept)

-- Returns the time at which `amount` fits into the limit. A call above the limit waits for an empty window.
local function fits_at(meter, amount, limit)
  local sum = get('sum' .. meter)
  if sum == 0 or sum + amount <= limit then return now end
  local names, first = {}, get('head' .. meter)
  for grain = first, math.floor((now + horizon) / GRAIN) do names[#names + 1] = string.format('%.0f', grain) end
  for at, found in ipairs(redis.call('HMGET', grains_key(meter), unpack(names))) do
    if found then
      sum = sum - tonumber(found)
      if sum <= 0 or sum + amount <= limit then return (first + at) * GRAIN + WINDOW end
    end
  end
  return now
end

local function decide()
  if state.breaker == 'h' or (state.breaker == 'o' and get('until') > now) or get('throttled') > now then return 3, 0 end
  local at = math.max(now, get('held'))
  for _, meter in ipairs(METERS) do
    local limit = limit_of(meter)
    if limit then
      at = math.max(at, fits_at(meter, amounts[meter], limit))
      if spreads(meter, limit) then at = math.max(at, get('next' .. meter)) end
    end
  end
  at = math.ceil(at)
  if at - now > horizon then return 2, at end
  for _, meter in ipairs(METERS) do
    local limit = limit_of(meter)
    if limit then
      local due = spreads(meter, limit) and math.max(get('next' .. meter), at) or at
      set('next' .. meter, math.ceil(due + between(meter, amounts[meter])))
    end
    count(meter, at, amounts[meter])
  end
  if state.breaker == 'o' then
    set('breaker', 'h')
    set('prober', member)
    return 1, at
  end
  return 0, at
end

local verdict, at = decide()
save()
local said = answer(0, 0, 0)
said[#said + 1] = verdict
said[#said + 1] = math.max(0, at - now)
said[#said + 1] = at
return said
