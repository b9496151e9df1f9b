use strict;
use warnings;
my $log = "d1 ERROR disk (28)\nd2 INFO ok\nd3 ERROR net (110)\n";
while ($log =~ /^(?<day>\S+) ERROR (?<what>\w+) \((\d+)\)$/mg) { print "$+{day} $+{what} $3\n" }
(my $s = 'ann@home, bob@work') =~ s/(\w+)@(\w+)/$2 at \u$1/g;
print "$s\n", join('|', split /\s*[,;]\s*/, 'a , b;c'), "\n";
my $balanced = qr/\((?:[^()]++|(?R))*\)/;
print 'x(a(b)c)y' =~ $balanced ? "$&\n" : "none\n";
(my $t = 'hello') =~ tr/a-y/b-z/;
print "$t\n";
