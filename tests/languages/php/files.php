<?php
$dir = sys_get_temp_dir() . '/x-' . getmypid();
mkdir("$dir/a/b", 0755, true);
file_put_contents("$dir/a/b/ä.txt", str_repeat("grüße\n", 1000));
symlink('b', "$dir/a/link");
chmod("$dir/a/b/ä.txt", 0640);
printf("%d %o %s\n", strlen(file_get_contents("$dir/a/link/ä.txt")), fileperms("$dir/a/b/ä.txt") & 0777, implode(' ', array_diff(scandir("$dir/a"), ['.', '..'])));
echo strlen(gzcompress(str_repeat('0', 100000))) < 500 ? "small\n" : "large\n";
unlink("$dir/a/link"); unlink("$dir/a/b/ä.txt"); rmdir("$dir/a/b"); rmdir("$dir/a"); rmdir($dir);
var_dump(file_exists($dir), @file_put_contents('/usr/bin/not/allowed', 'x'));
