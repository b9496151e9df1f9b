require 'timeout'
lock = Mutex.new
total = 0
(1..16).map { Thread.new { 1000.times { lock.synchronize { total += 1 } } } }.each(&:join)
puts total
queue = Queue.new
consumer = Thread.new { Array.new(5) { queue.pop } }
5.times { |i| queue << i * i }
puts consumer.value.inspect
begin
  Timeout.timeout(0.05) { sleep 10 }
rescue Timeout::Error
  puts 'timed out'
end
puts Fiber.new { Fiber.yield 1 }.resume
