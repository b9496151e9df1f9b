use strict;
use warnings;
use List::Util qw(reduce sum max first shuffle);
use bigint;
my %count;
$count{$_}++ for qw(the cat the dog);
print join(' ', map { "$_=$count{$_}" } sort keys %count), "\n";
print 2**100, ' ', (reduce { $a * $b } 1 .. 25), "\n";
my @sorted = map { $_->[1] } sort { $a->[0] <=> $b->[0] or $a->[1] cmp $b->[1] } map { [length, $_] } qw(pear fig apple kiwi);
print "@sorted\n";
sub hanoi { my ($n, $f, $t, $v) = @_; return $n ? hanoi($n - 1, $f, $v, $t) + 1 + hanoi($n - 1, $v, $t, $f) : 0 }
print hanoi(10, 'a', 'c', 'b'), "\n";
