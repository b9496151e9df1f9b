use strict;
use warnings;
no warnings 'recursion';
sub depth { my $n = shift; return $n ? 1 + depth($n - 1) : 0 }
print depth(50000), "\n";
my @blocks = map { chr($_ % 128) x (10 << 20) } 1 .. 25;
my $bytes = 0;
$bytes += length for @blocks;
print $bytes >> 20, "\n";
