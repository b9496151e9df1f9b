<?php
// The run time knows the limit, and says so before the sandbox has to end it.
echo "before\n";
$blocks = [];
while (true) $blocks[] = str_repeat('x', 10 << 20);
