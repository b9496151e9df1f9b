<?php
echo json_encode(array_slice($argv, 1), JSON_UNESCAPED_UNICODE), ' ', getenv('GREETING'), "\n";
$sum = 0;
while (($line = fgets(STDIN)) !== false) $sum += (int) $line;
echo $sum, "\n";
exit(4);
