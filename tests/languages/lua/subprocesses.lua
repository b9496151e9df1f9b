local p = io.popen("printf '3\\n10\\n2\\n' | sort -rn")
for line in p:lines() do io.write(line, " ") end
print(p:close())
print(select(3, os.execute("exit 7")))
print(select(2, os.execute("kill -TERM $$")))
