for day, what, code in ("d1 ERROR disk (28)\nd3 ERROR net (110)\n"):gmatch("(%S+) ERROR (%w+) %((%d+)%)") do
  print(day, what, tonumber(code) + 1)
end
print(("ann@home"):gsub("(%w+)@(%w+)", "%2 at %1"))
print(("%5.2f|%-5s|%05d|%q"):format(3.14159, "ab", 42, 'say "hi"'))
local totals, names = {}, {}
for name, qty in ("ann,3;bob,4;ann,5"):gmatch("(%a+),(%d+)") do
  if not totals[name] then names[#names + 1] = name end
  totals[name] = (totals[name] or 0) + qty
end
for _, name in ipairs(names) do print(name, string.format("%d", totals[name])) end
