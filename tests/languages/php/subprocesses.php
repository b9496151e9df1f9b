<?php
$sort = proc_open(['sort', '-rn'], [['pipe', 'r'], ['pipe', 'w']], $pipes);
fwrite($pipes[0], "3\n10\n2\n");
fclose($pipes[0]);
echo json_encode(explode("\n", trim(stream_get_contents($pipes[1])))), ' ', proc_close($sort), "\n";
exec('echo hello; exit 7', $lines, $status);
echo $lines[0], ' ', $status, "\n";
echo trim(shell_exec('printf "a b" | wc -w')), "\n";
