local Account = {}
Account.__index = Account
Account.__add = function(a, b) return Account.new(a.balance + b.balance) end
Account.__tostring = function(a) return "Account(" .. a.balance .. ")" end
function Account.new(balance) return setmetatable({ balance = balance }, Account) end
function Account:deposit(n)
  if n <= 0 then error("invalid amount", 2) end
  self.balance = self.balance + n
end
local a = Account.new(10)
a:deposit(5)
print(tostring(a + Account.new(1)))
print(pcall(a.deposit, a, -1))
local proxy = setmetatable({}, { __index = function(_, key) return key .. "!" end, __call = function(_, x) return x * 2 end })
print(proxy.hello, proxy(21))
