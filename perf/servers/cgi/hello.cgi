#!/bin/sh
printf 'Content-Type: application/json\r\n\r\n'
printf '{\n    "result": "OK",\n    "message": "Hello World"\n}'
