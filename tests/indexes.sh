#!/usr/bin/env bash
# Lists the indexes that no statement of the tests uses, because each index slows writes.
#
# Postgres logs the plan of every statement (auto_explain) and uses an index wherever possible (enable_seqscan off). An index without
# a plan serves no query; a unique one may still be a constraint. Takes about 20 minutes and some GB for the plans.
set -euo pipefail
cd "$(dirname "$0")/.."

unset DATABASE_URL
# The high cost of scans without seqscan would trigger jit for each statement.
postgres_options="-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c auto_explain.log_nested_statements=on \
    -c enable_seqscan=off -c jit=off"
# shellcheck source=tests/servers.sh
source tests/servers.sh
find_servers

say "the tests on Postgres"
# Tests of a plan's estimates may fail here.
cargo nextest run --no-fail-fast -E 'binary(it)' || true

plans=$folder/postgres/log
server=${DATABASE_URL%/postgres}
"$postgres_bin/psql" -qX "$DATABASE_URL" -c 'create database indexes'
DATABASE_URL=$server/indexes target/debug/gavel migrate >/dev/null
used=$folder/used
grep -ohE '(Index (Only )?Scan( Backward)? using|Bitmap Index Scan on) [a-z_]+' "$plans" | awk '{print $NF}' | sort | uniq -c | awk '{print $2, $1}' >"$used"
say "indexes in no plan"
"$postgres_bin/psql" -qXAt "$server/indexes" -F ' ' -c "
    select c.relname, case when i.indisunique then 'unique, ' else '' end || 'on ' || i.indrelid::regclass
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' order by 1" |
    while read -r index what; do
        grep -q "^$index " "$used" || echo "$index ($what)"
    done
