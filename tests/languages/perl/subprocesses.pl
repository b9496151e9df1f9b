use strict;
use warnings;
use IPC::Open2;
$| = 1;
my $pid = open2(my $out, my $in, 'sort', '-rn');
print $in "3\n10\n2\n";
close $in;
print join(' ', map { chomp; $_ } <$out>), "\n";
waitpid $pid, 0;
print `printf 'a b' | wc -w` + 0, "\n";
system 'exit 7';
print $? >> 8, "\n";
pipe my $reader, my $writer;
if (!(my $child = fork)) { close $reader; print $writer "from $$\n" =~ /\d/ ? "a child\n" : ''; exit }
close $writer;
print <$reader>;
wait;
my $sleeper = fork // die;
if (!$sleeper) { exec 'sleep', '60' }
kill TERM => $sleeper;
waitpid $sleeper, 0;
print $? & 127, "\n";
