-- Applies the report of a member and assigns its slots. Lease 0: the member leaves. ARGV 13: outcomes in order: a(nswered), f(ailed), of
-- the probe A, F, G (returned). O: the breaker is open, but this state lost that. 14-15: pause and hold in ms. 16-19: learned limits (0:
-- none, negative: revoked). Then five per departure: time, whether it corrects a reservation (1) or is unreserved (0), requests, prompt
-- tokens, answer tokens.
--
-- Successes arrive at most LATEST ms late (polls every 250 ms, checked every 100 ms). While other members have calls in flight, consecutive
-- failures count only after that time.
local LATEST = 400
local total_out = others_out + out
for outcome in string.gmatch(ARGV[13], '.') do
  local probing = state.breaker == 'h' and state.prober == member
  if outcome == 'a' then
    if state.breaker == 'c' then set('failures', 0) end
  elseif outcome == 'f' then
    if state.breaker == 'c' then
      if get('failures') == 0 then set('failing', now) end
      set('failures', get('failures') + 1)
      local all_heard = others_out == 0 or now - get('failing') >= LATEST
      if all_heard and get('failures') >= math.max(threshold, total_out) then
        set('breaker', 'o')
        set('until', now + cool_down)
      end
    end
  elseif outcome == 'O' then
    if state.breaker == 'c' then
      set('failures', math.max(threshold, get('failures')))
      set('breaker', 'o')
      set('until', now + cool_down)
    end
  elseif probing and outcome == 'A' then
    set('breaker', 'c')
    set('failures', 0)
  elseif probing and outcome == 'F' then
    set('failures', get('failures') + 1)
    set('breaker', 'o')
    set('until', now + cool_down)
  elseif probing and outcome == 'G' then
    set('breaker', 'o')
    set('until', now)
  end
end

local pause, hold = tonumber(ARGV[14]), tonumber(ARGV[15])
if pause > 0 then set('throttled', math.max(get('throttled'), now + pause)) end
if hold > 0 then set('held', math.max(get('held'), now + hold)) end

for at, meter in ipairs(METERS) do
  local said = tonumber(ARGV[15 + at])
  if said > 0 then
    set('learned' .. meter, said)
    set('heard' .. meter, now)
  elseif said < 0 and get('learned' .. meter) == -said then
    set('learned' .. meter, 0)
  end
end

for at = 20, #ARGV, 5 do
  local when, is_correction = math.min(tonumber(ARGV[at]), now), ARGV[at + 1] == '1'
  local input, output = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local amounts = { r = tonumber(ARGV[at + 2]), t = input + output, i = input, o = output }
  for _, meter in ipairs(METERS) do
    count(meter, when, amounts[meter])
    local limit = limit_of(meter)
    -- A correction shifts the next departure, at most by a minute. An unreserved departure only delays departures due soon after its own
    -- time.
    if limit and amounts[meter] ~= 0 and spreads(meter, limit) and get('next' .. meter) > 0 then
      local shift = between(meter, math.abs(amounts[meter]))
      if not is_correction then
        set('next' .. meter, math.max(get('next' .. meter), math.ceil(when + shift)))
      elseif amounts[meter] > 0 then
        set('next' .. meter, math.min(math.ceil(math.max(get('next' .. meter), now) + shift), now + WINDOW))
      else
        set('next' .. meter, math.max(math.ceil(get('next' .. meter) - shift), math.min(now, get('next' .. meter))))
      end
    end
  end
end

-- Assigns free slots. While another member has less than its share, this one gets at most its own share.
local slots, allowed, free = have, want, 0
if lease_ms == 0 then
  redis.call('HDEL', members_key, member)
else
  if cap > 0 then
    local names = {}
    for _, other in ipairs(others) do
      if other.wants > 0 then names[#names + 1] = other.name end
    end
    if want > 0 then names[#names + 1] = member end
    local part = math.floor(cap / math.max(1, #names))
    local starving = false
    for _, other in ipairs(others) do
      if other.has < other.wants and other.has < math.max(part, 1) then starving = true end
    end
    if starving and part > 0 then
      allowed = math.min(want, part)
    elseif starving then
      -- With fewer slots than members, they take turns of 2 s.
      table.sort(names)
      local turn = math.floor(now / 2000)
      allowed = 0
      for at, name in ipairs(names) do
        if name == member and (at + turn) % #names < cap then allowed = math.min(want, 1) end
      end
    end
    -- After the cap was lowered, slots beyond the share are returned as calls end.
    if have + others_have > cap and have > part then allowed = math.min(allowed, math.max(part, cap - others_have)) end
    slots = math.max(have, math.min(allowed, math.max(0, cap - others_have)))
    free = math.max(0, cap - others_have - slots)
  end
  local entry = string.format('%.0f:%d:%d:%d', now + lease_ms, slots, out, want)
  redis.call('HSET', members_key, member, entry)
end
save()
return answer(slots, allowed, free)
