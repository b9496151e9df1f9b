print("never printed")
local x = = 1
