#!/usr/bin/env -S php-cgi -n -d cgi.force_redirect=0
<?php
header('Content-Type: application/json');
echo "{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}";
