use strict;
use warnings;
print "[$_]" for @ARGV;
print " $ENV{GREETING}\n";
my $sum = 0;
no warnings 'numeric';
$sum += $_ while <STDIN>;
print "$sum\n";
exit 4;
