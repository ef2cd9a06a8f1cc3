-- What a member met since it last reported, and the slots that it wants. ARGV 13: outcomes, in order: a(nswered), f(ailed),
-- and of the probe A, F, G (given back); O: the breaker is open, which this lane doesn't know any more; 14-15: pause and hold in ms; 16-19: what was learned of each limit (0: nothing,
-- below 0: that this isn't one); then of each departure: when, whether it corrects what was put down (1) or wasn't put down
-- (0), requests, tokens of prompt, tokens of answer.
-- Lease 0: the member leaves.
-- Answers are told so many ms later at most (polls are 250 ms apart, and looked for each 100): while others have calls out, a row of failures counts only when theirs are in.
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
    -- More or less than was put down for a call moves the next one; after a minute it is forgotten. What nobody put down went
    -- out at its own time, and moves what is due soon after that.
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

-- Slots: more where there are some, but no more than its part while another has less than that.
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
      -- Fewer slots than members: they take turns of two seconds.
      table.sort(names)
      local turn = math.floor(now / 2000)
      allowed = 0
      for at, name in ipairs(names) do
        if name == member and (at + turn) % #names < cap then allowed = math.min(want, 1) end
      end
    end
    -- More are out than the cap has, as it became less: those beyond a part go back as their calls end.
    if have + others_have > cap and have > part then allowed = math.min(allowed, math.max(part, cap - others_have)) end
    slots = math.max(have, math.min(allowed, math.max(0, cap - others_have)))
    free = math.max(0, cap - others_have - slots)
  end
  local entry = string.format('%.0f:%d:%d:%d', now + lease_ms, slots, out, want)
  redis.call('HSET', members_key, member, entry)
end
save()
return answer(slots, allowed, free)
