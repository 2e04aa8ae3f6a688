#!/bin/sh
# Writes an OpenAPI document of a thousand operations, each with the body of record.openapi.yaml, and the
# routes that are bound to it, into a folder: thousand.sh FOLDER
set -eu
cd "$(dirname "$0")"
awk '
  /^paths:/ { print; within = 1; next }
  /^components:/ {
    for (number = 0; number < 1000; number++) {
      text = operation
      gsub("/records:", "/record-" number ":", text)
      gsub("takeRecord", "takeRecord" number, text)
      printf "%s", text
    }
    within = 0
  }
  within { operation = operation $0 "\n"; next }
  { print }
' record.openapi.yaml > "$1/thousand.openapi.yaml"
sed "s|keys/jwks.json|$PWD/keys/jwks.json|" weir-thousand.yaml > "$1/weir.yaml"
awk 'BEGIN {
  for (number = 0; number < 1000; number++)
    printf "      - {op: takeRecord%d, proxy: {upstream: backend, path: /echo}}\n", number
}' >> "$1/weir.yaml"
