use strict;
use warnings;
my $nothing;
print "value: $nothing\n";
