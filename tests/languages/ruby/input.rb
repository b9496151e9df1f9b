puts ARGV.inspect, ENV['GREETING']
puts $stdin.each_line.map(&:to_i).sum
at_exit { puts 'leaving' }
exit 4
