<?php
header('Content-Type: application/json');
echo "{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}";
