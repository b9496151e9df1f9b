use strict;
use warnings;
sub inner { die 'nobody caught me' }
print "before\n";
inner();
