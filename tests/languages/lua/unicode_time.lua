local s = "Straße 日本"
print(#s, s:upper():sub(1, 4))
local n = 0
for _ in s:gmatch("[%z\1-\127\194-\244][\128-\191]*") do n = n + 1 end
print(n, utf8 and utf8.len(s) or n)
print(os.date("!%Y-%m-%d %H:%M:%S", 1730000000), os.date("%H:%M", 1730000000))
print(os.time({ year = 2024, month = 3, day = 1, hour = 0 }) - os.time({ year = 2024, month = 2, day = 1, hour = 0 }))
