s = "e\u0301 Straße 日本 👩‍💻"
puts s.length, s.bytesize, s.upcase, s.unicode_normalize(:nfc).length, s.grapheme_clusters.length
%w[Europe/Berlin Asia/Kolkata].each { |zone| ENV['TZ'] = zone; puts Time.at(1730000000).strftime('%F %T %z') }
puts Encoding.default_external, "\xff".dup.force_encoding('UTF-8').valid_encoding?
