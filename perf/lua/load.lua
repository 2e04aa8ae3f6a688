-- What one wrk run sends, and one JSON line about how it went.
--
-- Arguments after `--`, each `name=value`:
--   body=FILE    POST this file as application/json instead of GET
--   tokens=FILE  one token a line, sent as bearer tokens in turn (one token: always that one)
--   accept=NAME  say that this content coding is accepted
--   rate=N       offer N requests a second in all instead of as many as come back
--   corpus=FILE  POST the bodies of this file in turn, one a line, each with an id of its own, to
--                the URL's path with the number of the body's line behind it
--   first=N      the first id
--   stop=N       end after N answers, before the time is over

local ffi = require("ffi")
ffi.cdef [[
  struct perf_timeval { long seconds; long microseconds; };
  int gettimeofday(struct perf_timeval *now, void *zone);
]]

local clock = ffi.new("struct perf_timeval")

-- Milliseconds of the same clock by which wrk fires its timers.
local function milliseconds()
  ffi.C.gettimeofday(clock, nil)
  return tonumber(clock.seconds) * 1e3 + tonumber(clock.microseconds) / 1e3
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

-- One schedule for all connections: each takes the next slot when it is free. A server that lags
-- is not waited for: overdue slots are sent at once.
local function pace(rate)
  local gap = 1e3 / rate
  local due
  return function()
    local now = milliseconds()
    due = (due or now) + gap
    return math.max(0, math.floor(due) - math.floor(now))
  end
end

-- The request in turn for each token.
local function rotate(tokens)
  local requests, at = {}, 0
  for _, token in ipairs(tokens) do
    wrk.headers["Authorization"] = "Bearer " .. token
    requests[#requests + 1] = wrk.format()
  end
  return function()
    at = at % #requests + 1
    return requests[at]
  end
end

-- A request for each body, cut where its id stands: `{"id":"` and twelve digits.
local function unique(path, first)
  local heads, tails, id = {}, {}, first - 1
  local place = wrk.path
  for line in io.lines(path) do
    local number = #heads
    wrk.path = place .. number
    wrk.body = line
    local text = wrk.format()
    local at = text:find('{"id":"', 1, true) + 6
    heads[number + 1] = text:sub(1, at)
    tails[number + 1] = text:sub(at + 13)
  end
  return function()
    id = id + 1
    local at = id % #heads + 1
    return heads[at] .. string.format("%012d", id) .. tails[at]
  end
end

local function stop_after(answers)
  local left = answers
  return function()
    left = left - 1
    if left == 0 then
      wrk.thread:stop()
    end
  end
end

-- wrk looks for `request`, `delay` and `response` after this: what is not needed stays undefined,
-- and wrk then does without the call.
function init(arguments)
  local given = {}
  for _, argument in ipairs(arguments) do
    local name, value = argument:match("^(%w+)=(.*)$")
    given[name] = value
  end
  if given.accept then
    wrk.headers["Accept-Encoding"] = given.accept
  end
  if given.body then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = read(given.body)
  end
  if given.tokens then
    local tokens = {}
    for token in read(given.tokens):gmatch("%S+") do
      tokens[#tokens + 1] = token
    end
    if #tokens == 1 then
      wrk.headers["Authorization"] = "Bearer " .. tokens[1]
    else
      request = rotate(tokens)
    end
  end
  if given.corpus then
    wrk.method = "POST"
    wrk.headers["Content-Type"] = "application/json"
    request = unique(given.corpus, tonumber(given.first))
  end
  if given.rate then
    delay = pace(tonumber(given.rate))
  end
  if given.stop then
    response = stop_after(tonumber(given.stop))
  end
end

function done(summary, latency, requests)
  io.write(string.format(
    '\nRESULT {"requests": %d, "seconds": %.6f, "p50_us": %d, "p99_us": %d, "max_us": %d, '
      .. '"errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d, "status": %d}}\n',
    summary.requests, summary.duration / 1e6,
    latency:percentile(50), latency:percentile(99), latency.max,
    summary.errors.connect, summary.errors.read, summary.errors.write,
    summary.errors.timeout, summary.errors.status))
end
