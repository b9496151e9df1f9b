def inner(values)
  values.fetch(3)
end

puts 'before'
inner([1, 2, 3])
