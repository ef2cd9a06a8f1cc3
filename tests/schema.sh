#!/usr/bin/env bash
# Tests the API against its OpenAPI document: schemathesis generates thousands of valid and invalid requests, with every check and
# phase, over `gavel up --simulate`, and if DATABASE_URL and REDIS_URL are set also over `serve` and `worker`. tests/schema/hooks.py
# lists accepted findings with reasons. SCHEMA_SEED selects another sequence; runs differ slightly, because the generator uses ids
# and times created by the service.
# Exit codes: 0 no other findings, 1 findings, 2 missing Python 3, its package registry, or psql with DATABASE_URL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
gavel=$(realpath "${GAVEL:-${CARGO_TARGET_DIR:-target}/debug/gavel}")
here=$PWD/tests/schema
folder=$(mktemp -d)
started=()
database=""
stop() {
    local pid
    for pid in ${started[@]+"${started[@]}"}; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    started=()
    [[ -z $database ]] || psql -q "$DATABASE_URL" -c "drop database if exists $database with (force)" || true
    database=""
}
trap 'stop; rm -rf "$folder"' EXIT

[[ -z ${DATABASE_URL:-} ]] || command -v psql >/dev/null || {
    echo "schema.sh: psql is missing (Debian: apt install postgresql-client)"
    exit 2
}
python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install --quiet schemathesis==4.32.5 hypothesis==6.170.17 || exit 2
cd "$folder"
token=schema-token-of-a-test
export GAVEL_AUTH_TOKENS=schema:admin:$token

start() {
    "$gavel" "$@" >>"$folder/log" 2>&1 &
    started+=($!)
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# In a separate folder, because the generator stores data there.
walk() (
    local url=$1
    cd "$(mktemp -d "$folder/walk.XXXXXX")"
    for _ in {1..150}; do
        "$gavel" healthcheck --ready --server "$url" >/dev/null 2>&1 && break
        sleep 0.2
    done
    export SCHEMATHESIS_HOOKS=hooks PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
    exec timeout 600 "$folder/venv/bin/schemathesis" \
        --config-file "$here/schemathesis.toml" run "$url/openapi.json" --header "Authorization: Bearer $token" \
        --checks all --phases examples,coverage,fuzzing,stateful --seed "${SCHEMA_SEED:-1}" --max-examples 3 --workers 1 --request-timeout 60 \
        --continue-on-failure --suppress-health-check all --no-color
)

status=0
url=http://127.0.0.1:$(free_port)
DATABASE_URL="" REDIS_URL="" start up --simulate --bind "${url#http://}" --data-dir "$folder/data"
walk "$url" >"$folder/first" 2>&1 &
first=$!
started+=("$first")

if [[ -z ${DATABASE_URL:-} || -z ${REDIS_URL:-} ]]; then
    echo "schema.sh: SKIPPED: THE API IS NOT WALKED OVER POSTGRES AND REDIS: DATABASE_URL and REDIS_URL name none"
else
    # Runs parallel to the other, because the generator uses one core.
    echo "schema.sh: Postgres and Redis"
    database=gavel_schema_$$
    psql -q "$DATABASE_URL" -c "create database $database"
    url=http://127.0.0.1:$(free_port)
    judge=$(free_port)
    export GAVEL_REDIS_QUEUE=$database DEFAULT_LLM_PROVIDER=simulated GAVEL_SIMULATED_URL=http://127.0.0.1:$judge/v1
    own=$(python3 -c 'import sys, urllib.parse as u; print(u.urlsplit(sys.argv[1])._replace(path="/" + sys.argv[2]).geturl())' "$DATABASE_URL" "$database")
    start simulate-judge --port "$judge"
    DATABASE_URL=$own "$gavel" migrate >>"$folder/log" 2>&1
    DATABASE_URL=$own start serve --bind "${url#http://}"
    DATABASE_URL=$own start worker --health-bind ""
    walk "$url" || status=1
fi
echo "schema.sh: SQLite"
wait "$first" || status=1
cat "$folder/first"
exit "$status"
