for i, a in ipairs(arg) do io.write("[", a, "]") end
print(" " .. os.getenv("GREETING"))
local sum = 0
for line in io.lines() do sum = sum + (tonumber(line) or 0) end
print(sum)
os.exit(4)
