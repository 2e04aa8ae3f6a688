<?php
header('Content-Type: application/json');
echo json_encode([
    'agent' => getmypid(),
    'method' => $_SERVER['REQUEST_METHOD'],
    'script' => $_SERVER['SCRIPT_NAME'],
    'path' => $_SERVER['PATH_INFO'] ?? '',
    'query' => $_GET,
    'length' => strlen(file_get_contents('php://input')),
]), "\n";
