def permutations(items) = items.permutation.map(&:join).sort
puts permutations(%w[a b c]).join(' ')
Point = Struct.new(:x, :y) do
  include Comparable
  def <=>(other) = [x, y] <=> [other.x, other.y]
end
puts [Point.new(2, 1), Point.new(1, 5)].min.inspect
fib = Enumerator.new { |y| a, b = 0, 1; loop { y << a; a, b = b, a + b } }
puts fib.lazy.select(&:even?).first(8).inspect, 2**120, (1..20).reduce(:lcm)
case { name: 'ann', tags: ['x', 'y'] }
in { name: String => name, tags: [first, *] } then puts "#{name} #{first}"
end
