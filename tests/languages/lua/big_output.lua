for i = 1, 50000 do io.write("line ", i, "\n") end
