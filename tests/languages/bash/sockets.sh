# The network is there as far as loopback goes: a server, a client through /dev/tcp.
perl -MIO::Socket::INET -e '
	$server = IO::Socket::INET->new(LocalAddr => "127.0.0.1:8471", Listen => 1) or die;
	$peer = $server->accept or die;
	print $peer uc <$peer>;' &
for _ in $(seq 600); do { exec 3<>/dev/tcp/127.0.0.1/8471; } 2>/dev/null && break; sleep 0.1; done
echo hello >&3; cat <&3; wait
