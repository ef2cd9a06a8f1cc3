#!/usr/bin/env bash
# Generates a Python client of the OpenAPI document with openapi-python-client, without warnings, and uses it for
# a session's score, a job, a batch with its reports and a rescore (tests/client/walk.py), over `gavel demo`.
# Exit codes: 0 passed, 1 error in the document or the service, 2 missing Python 3 or its package registry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
gavel=${CARGO_TARGET_DIR:-target}/debug/gavel
folder=$(mktemp -d)
served=""
cleanup() {
    [[ -z $served ]] || kill "$served" 2>/dev/null || true
    rm -rf "$folder"
}
trap cleanup EXIT

python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install --quiet openapi-python-client==0.29.1 || exit 2
"$gavel" openapi >"$folder/openapi.json"
"$folder/venv/bin/openapi-python-client" generate --path "$folder/openapi.json" --config tests/client/config.yml \
    --output-path "$folder/client" --fail-on-warning
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
"$gavel" demo --bind "127.0.0.1:$port" --data-dir "$folder/data" >"$folder/log" 2>&1 &
served=$!
for _ in {1..150}; do
    "$gavel" healthcheck --ready --server "$url" >/dev/null 2>&1 && break
    sleep 0.2
done
"$folder/venv/bin/python" tests/client/walk.py "$folder/client" "$url" || {
    tail -20 "$folder/log"
    exit 1
}
