local function primes(n)
  local sieve, found = {}, {}
  for i = 2, n do
    if not sieve[i] then
      found[#found + 1] = i
      for j = i * i, n, i do sieve[j] = true end
    end
  end
  return found
end
print(table.concat(primes(50), " "))
local words = { "pear", "fig", "apple" }
table.sort(words, function(a, b) return #a < #b end)
print(table.concat(words, " "))
local memo = setmetatable({}, { __mode = "k" })
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
print(fib(25))
