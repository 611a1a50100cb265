#!/bin/sh
# Print the Python to make .venv with: the argument if there is one, else the first on PATH that is new enough.
set -u
recent='import sys; sys.exit(sys.version_info < (3, 11))'
for name in ${1:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c "$recent" 2>/dev/null; then
        echo "$name"
        exit 0
    fi
done
echo "error: Foreword needs Python 3.11 or newer; ${1:-python3} is missing or older (choose one with: make PYTHON=/path/to/python ...)" >&2
exit 1
