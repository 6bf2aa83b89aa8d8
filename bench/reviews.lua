-- For wrk: posts the lines of a file in turn; an answer that does not hold a text is counted as wrong.
-- Arguments: the file, the text. Counts are of one thread: wrk is run with one.
local requests = {}
local last = 0
local expect = ""
wrong = 0

local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(arguments)
  for line in io.lines(arguments[1]) do
    local headers = { ["content-type"] = "application/json" }
    requests[#requests + 1] = wrk.format("POST", nil, headers, line)
  end
  expect = arguments[2] or ""
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function response(status, headers, body)
  if status ~= 200 or not string.find(body, expect, 1, true) then
    wrong = wrong + 1
  end
end

function done(summary, latency, all)
  local bad = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  for _, thread in ipairs(threads) do
    bad = bad + thread:get("wrong")
  end
  io.write(string.format("answers %d wrong %d\n", summary.requests, bad))
end
