-- Takes tokens of a bucket: the generic cell rate algorithm on the clock of Redis.
--
-- KEYS: the bucket. ARGV: microseconds until one token is refilled; most tokens; tokens requested.
-- Returns the tokens granted and, if there are none, the microseconds until one is there.
--
-- The value is "USED AT": tokens that were missing at a time in microseconds. Together they are the
-- theoretical arrival time; as two numbers, neither loses digits, a changed rate refills what was used
-- before, and a clock that is set back refills later, but never stops.
local interval, burst, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local used, at = 0, now
local value = redis.call('GET', KEYS[1])
if value then
  local first, second = string.match(value, '^(%S+) (%S+)$')
  used, at = tonumber(first), tonumber(second)
  used = math.min(burst, math.max(0, used - math.max(0, now - at) / interval))
end
local free = burst - used
local granted = math.min(requested, math.floor(free))
if granted > 0 or now < at then
  used = used + granted
  -- A full bucket needs no key.
  local expiry = math.ceil(used * interval / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', used, now), 'PX', string.format('%.0f', expiry))
end
if granted > 0 then
  return {granted, 0}
end
return {0, math.ceil((1 - free) * interval)}
