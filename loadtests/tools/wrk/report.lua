-- Writes what wrk counted as JSON, the latencies as a curve through the percents of PERCENTS.

function done(summary, latency)
  local curve = {}
  for percent in os.getenv("PERCENTS"):gmatch("[^,]+") do
    local value = tonumber(percent)
    local us = value >= 100 and latency.max or latency:percentile(value)
    curve[#curve + 1] = string.format("[%s, %.3f]", percent, us / 1000)
  end
  local errors = summary.errors
  local file = assert(io.open(os.getenv("RESULT"), "w"))
  file:write(string.format(
    '{"requests": %d, "seconds": %.6f, "mean_ms": %.3f, "min_ms": %.3f, "curve": [%s],'
      .. ' "errors": {"connect": %d, "read": %d, "write": %d, "timeout": %d, "status": %d}}\n',
    summary.requests, summary.duration / 1e6, latency.mean / 1000, latency.min / 1000,
    table.concat(curve, ", "),
    errors.connect, errors.read, errors.write, errors.timeout, errors.status))
  file:close()
end
