$total = 0;
foreach ([1, 2, 3] as $n) {
    $total += $n;
}
echo "without an opening tag: $total\n";
echo __LINE__, "\n";
