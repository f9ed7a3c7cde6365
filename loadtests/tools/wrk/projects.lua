-- A page, a load and a save in turn. FILES is a folder with `ids`, one project a line, and `body`.

local folder = os.getenv("FILES")
local ids, turn = {}, 0

function init()
  for id in io.lines(folder .. "/ids") do
    ids[#ids + 1] = id
  end
  local file = assert(io.open(folder .. "/body"))
  wrk.body = file:read("a")
  file:close()
  turn = math.random(#ids) * 3
end

function request()
  turn = turn + 1
  local project = "/projects/" .. ids[math.floor(turn / 3) % #ids + 1]
  local kind = turn % 3
  if kind == 0 then
    return wrk.format("GET", "/static/4k.txt", {}, "")
  elseif kind == 1 then
    return wrk.format("GET", project, {}, "")
  end
  local headers = { ["Content-Type"] = "application/json", ["Authorization"] = "Bearer " .. os.getenv("TOKEN") }
  return wrk.format("PUT", project, headers)
end

dofile(os.getenv("REPORT"))
