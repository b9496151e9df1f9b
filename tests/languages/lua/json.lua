-- A small JSON writer and reader, as people write when there is no library.
local function encode(v)
  if type(v) == "table" then
    local out = {}
    if #v > 0 then
      for i, x in ipairs(v) do out[i] = encode(x) end
      return "[" .. table.concat(out, ",") .. "]"
    end
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys)
    for i, k in ipairs(keys) do out[i] = ("%q:%s"):format(k, encode(v[k])) end
    return "{" .. table.concat(out, ",") .. "}"
  end
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end
local function decode(s, i)
  i = s:find("%S", i or 1)
  local c = s:sub(i, i)
  if c == '"' then
    local j = s:find('"', i + 1, true)
    return s:sub(i + 1, j - 1), j + 1
  elseif c == "[" then
    local list = {}
    i = i + 1
    while s:sub(i, i) ~= "]" do
      list[#list + 1], i = decode(s, i)
      i = s:find("%S", i)
      if s:sub(i, i) == "," then i = i + 1 end
    end
    return list, i + 1
  end
  local word = s:match("^[%w%.%-]+", i)
  if not word then error("unexpected " .. c) end
  return tonumber(word) or word == "true", i + #word
end
print(encode({ b = { 1, 2, { c = "d" } }, a = true }))
print(#decode('["x", [1, 2, 3], true]'), decode('["x", [1, 2, 3], true]')[2][3])
print((select(2, pcall(decode, "}")):gsub("^.*main.lua", "main.lua")))
