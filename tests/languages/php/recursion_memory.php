<?php
function depth(int $n): int { return $n === 0 ? 0 : 1 + depth($n - 1); }
echo depth(20000), "\n";
$blocks = [];
for ($i = 0; $i < 30; $i++) $blocks[] = str_repeat(chr($i), 10 << 20);
echo array_sum(array_map('strlen', $blocks)) >> 20, "\n";
