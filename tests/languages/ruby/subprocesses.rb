require 'open3'
out, status = Open3.capture2('sort -rn', stdin_data: "3\n10\n2\n")
puts out.split.inspect, status.success?
puts `printf 'a b' | wc -w`.strip
system('exit 7')
puts $?.exitstatus
pid = spawn('sleep 60')
Process.kill(:TERM, pid)
Process.wait(pid)
puts $?.termsig
reader, writer = IO.pipe
fork { reader.close; writer.puts "child #{1 + 1}" }
writer.close
puts reader.read
Process.wait
