local name = os.tmpname()
local f = assert(io.open(name, "w"))
f:write("one\n", "zwei grüße\n", 3, "\n")
f:close()
local n, bytes = 0, 0
for line in io.lines(name) do n = n + 1; bytes = bytes + #line end
print(n, bytes)
f = assert(io.open(name, "rb"))
f:seek("set", 4)
print(f:read("*l"), f:read("*n"))
f:close()
assert(os.rename(name, name .. ".x"))
print(io.open(name), os.remove(name .. ".x"))
print((select(2, io.open("/usr/bin/not/allowed", "w"))))
