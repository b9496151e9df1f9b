<?php
preg_match_all('/^(?<day>\S+) ERROR (?<what>\w+) \((\d+)\)$/m', "d1 ERROR disk (28)\nd2 INFO ok\nd3 ERROR net (110)", $m, PREG_SET_ORDER);
foreach ($m as $match) echo $match['day'], ' ', $match['what'], ' ', (int) $match[3], "\n";
echo preg_replace_callback('/\p{L}+/u', fn($w) => strrev($w[0]), 'abc def'), "\n";
echo preg_replace('/(\w+)@(\w+)/', '$2 at $1', 'ann@home'), "\n";
