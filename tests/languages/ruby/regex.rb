log = "2024-05-01 ERROR disk (28)\n2024-05-02 INFO ok\n2024-05-03 ERROR net (110)\n"
log.scan(/^(?<day>\S+) ERROR (?<what>\w+) \((\d+)\)/) { puts $~[:day] + ' ' + $~[:what] }
puts 'ann@home'.gsub(/(\w+)@(\w+)/, '\2 at \1'), 'naïve'[/\p{L}+/], 'a1b22'.scan(/\d+/).inspect
