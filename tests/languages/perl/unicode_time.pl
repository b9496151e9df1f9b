use strict;
use warnings;
use utf8;
use POSIX qw(strftime tzset);
use Unicode::Normalize;
binmode STDOUT, ':encoding(UTF-8)';
my $s = "e\x{301} Straße 日本";
print length $s, ' ', length NFC($s), ' ', uc $s, ' ', scalar reverse('日本'), "\n";
for my $zone (qw(Europe/Berlin Asia/Kolkata)) { $ENV{TZ} = $zone; tzset; print strftime('%F %T %Z', localtime 1730000000), "\n" }
print join(' ', sort { $a cmp $b } qw(ä z a)), "\n";
