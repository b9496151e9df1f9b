<?php
$file = fopen('php://memory', 'w+');
fwrite($file, "name,qty\n\"Smith, J.\",3\n\"says \"\"hi\"\"\",4\n");
rewind($file);
$head = fgetcsv($file, null, ',', '"', '');
$rows = [];
while ($cells = fgetcsv($file, null, ',', '"', '')) $rows[] = array_combine($head, $cells);
echo json_encode($rows, JSON_PRETTY_PRINT | JSON_UNESCAPED_UNICODE), "\n";
try {
    json_decode('{"a":', flags: JSON_THROW_ON_ERROR);
} catch (JsonException $e) {
    echo $e->getMessage(), "\n";
}
