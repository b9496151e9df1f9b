local function producer(n)
  return coroutine.wrap(function() for i = 1, n do coroutine.yield(i * i) end end)
end
local sum = 0
for x in producer(10) do sum = sum + x end
print(sum)
local tasks, log = {}, {}
for id = 1, 3 do
  tasks[id] = coroutine.create(function() for step = 1, 2 do log[#log + 1] = id .. "." .. step; coroutine.yield() end end)
end
while #tasks > 0 do
  for i = #tasks, 1, -1 do
    coroutine.resume(tasks[i])
    if coroutine.status(tasks[i]) == "dead" then table.remove(tasks, i) end
  end
end
print(table.concat(log, " "))
local ok, err = coroutine.resume(coroutine.create(function() error({ code = 5 }) end))
print(ok, err.code)
