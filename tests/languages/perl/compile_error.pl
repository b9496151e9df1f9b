use strict;
print "never printed\n";
$undeclared = 1;
