<?php
// So many records of so many fields, after a pause: what the published test has agents do.
function number(string $name, int $least, int $most): int
{
    return max($least, min($most, (int) ($_GET[$name] ?? $least)));
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
