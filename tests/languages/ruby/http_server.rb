require 'net/http'
require 'socket'
server = TCPServer.new('127.0.0.1', 0)
Thread.new do
  loop do
    peer = server.accept
    path = peer.gets.split[1]
    nil until peer.gets == "\r\n"
    status = path == '/hello' ? '200 OK' : '404 Not Found'
    peer.write "HTTP/1.1 #{status}\r\nContent-Length: #{path.bytesize}\r\nConnection: close\r\n\r\n#{path}"
    peer.close
  end
end
%w[/hello /none].each do |path|
  answer = Net::HTTP.get_response('127.0.0.1', path, server.addr[1])
  puts "#{answer.code} #{answer.body}"
end
