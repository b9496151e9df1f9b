local function depth(n) if n == 0 then return 0 end return 1 + depth(n - 1) end
print(depth(10000))
print((pcall(function() local function forever() return 1 + forever() end return forever() end)))
local blocks = {}
for i = 1, 30 do blocks[i] = string.rep(string.char(i), 10 * 1024 * 1024) end
print(#blocks * #blocks[30] / 1048576 == 300)
