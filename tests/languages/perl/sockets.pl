use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die;
if (!fork) {
	my $peer = $server->accept;
	my ($path) = <$peer> =~ m{^GET (\S+)};
	while (<$peer>) { last if /^\r?$/ }
	print $peer "HTTP/1.1 200 OK\r\nContent-Length: " . length($path) . "\r\nConnection: close\r\n\r\n$path";
	exit;
}
my $answer = HTTP::Tiny->new->get('http://127.0.0.1:' . $server->sockport . '/hello');
print "$answer->{status} $answer->{content}\n";
wait;
socketpair my $left, my $right, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die;
syswrite $left, "through a pair\n";
print scalar <$right>;
