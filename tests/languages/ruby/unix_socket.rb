require 'socket'
require 'tmpdir'
Dir.mktmpdir do |dir|
  server = UNIXServer.new("#{dir}/s")
  Thread.new { peer = server.accept; peer.puts peer.gets.upcase; peer.close }
  client = UNIXSocket.new("#{dir}/s")
  client.puts 'grüße'.encode('UTF-8')
  puts client.read.force_encoding('UTF-8')
end
