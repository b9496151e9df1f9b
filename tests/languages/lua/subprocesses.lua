local p = io.popen("printf '3\\n10\\n2\\n' | sort -rn")
for line in p:lines() do io.write(line, " ") end
print(p:close())
-- Not os.execute, which since Lua 5.4.7 takes what is in errno for an error of its own: see nsbox-seccomp(5), clone3.
print(select(3, io.popen("exit 7"):close()))
print(select(2, io.popen("kill -TERM $$"):close()))
print(os.execute("true"))
