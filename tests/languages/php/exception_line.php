<?php
function inner(array $values, int $i): int {
    if (!isset($values[$i])) throw new OutOfRangeException("no $i");
    return $values[$i];
}
echo "before\n";
inner([1, 2, 3], 3);
