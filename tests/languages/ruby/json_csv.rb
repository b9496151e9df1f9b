require 'json'
require 'csv'
rows = CSV.parse("name,qty\n\"Smith, J.\",3\n\"says \"\"hi\"\"\",4\n", headers: true).map(&:to_h)
puts JSON.pretty_generate(rows)
puts JSON.parse('{"a": [1, {"b": null}]}', symbolize_names: true).dig(:a, 1).inspect
begin
  JSON.parse('{"a":')
rescue JSON::ParserError => e
  puts e.class
end
