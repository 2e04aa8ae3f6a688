<?php
// The program of the published test: a given number of records and fields, after a pause.
function number(string $name, int $min, int $max): int
{
    return max($min, min($max, (int) ($_GET[$name] ?? $min)));
}

$fields = number('numFields', 1, 100);
$records = number('numRecords', 1, 100);
usleep(number('msdelay', 0, 10000) * 1000);

$grid = [];
for ($r = 1; $r <= $records; $r++) {
    $record = [];
    for ($f = 1; $f <= $fields; $f++) {
        $record["field$f"] = str_pad("value of field $f in record $r", 32, '.');
    }
    $grid[] = $record;
}
header('Content-Type: application/json');
echo json_encode(['records' => $grid]);
