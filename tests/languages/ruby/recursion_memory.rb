def depth(n) = n.zero? ? 0 : 1 + depth(n - 1)
puts depth(5000)
begin
  depth(10_000_000)
rescue SystemStackError => e
  puts e.class
end
puts Array.new(30) { |i| i.chr * (10 << 20) }.sum(&:bytesize) >> 20
