puts 'never printed'
def broken(
end
