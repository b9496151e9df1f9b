<?php
$values = [1];
echo $values[5] ?? 'default', "\n";
echo $values[5], "runs all the same\n";
