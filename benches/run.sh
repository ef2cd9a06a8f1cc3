#!/usr/bin/env bash
# Runs the benchmarks in sequence and prints their results as one Markdown table.
#
#   benches/run.sh                 all of them, about an hour
#   benches/run.sh durable_path    one or several
#
# Uses DATABASE_URL and REDIS_URL if set; otherwise starts private servers like tests/run.sh. Results are stored in
# benches/figures, a file each. GAVEL_BENCH_BINARY selects another binary: compare two builds in alternation.
set -euo pipefail
cd "$(dirname "$0")/.."

measurements=("$@")
if [[ ${#measurements[@]} -eq 0 ]]; then
    measurements=(durable_path pacing backlog pages)
fi
for one in "${measurements[@]}"; do
    [[ -f benches/$one.rs ]] || {
        echo "benches/run.sh: no measurement is called $one; known: $(basename -s .rs -a benches/*.rs | paste -sd ' ')" >&2
        exit 2
    }
done

# shellcheck source=tests/servers.sh
source tests/servers.sh
find_servers

began=$(date +%s)
for one in "${measurements[@]}"; do
    say "$one"
    cargo bench --profile dist --quiet --bench "$one"
done

python3 - "$began" "${measurements[@]}" <<'TABLE'
import json, sys
from pathlib import Path

began, names = int(sys.argv[1]), sys.argv[2:]


def rows(value, path=()):
    """Each number of a document, with what it is called."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from rows(item, (*path, str(key)))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            called = item.get("name") if isinstance(item, dict) else None
            yield from rows(item, (*path, str(called or n)))
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, (int, float)):
        yield ", ".join(path), value


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


print("\n| measurement | figure | median | lowest | highest |\n| --- | --- | --- | --- | --- |")
for name in names:
    document = json.loads(Path(f"benches/figures/{name}.json").read_text())
    if document["measured_at"] < began:
        sys.exit(f"{name} wrote no figures")
    found = {}
    for what, value in rows(document["figures"]):
        if not what.endswith((", run", ", target")):
            found.setdefault(what, []).append(value)
    for what, values in found.items():
        low, high = min(values), max(values)
        print(f"| {name} | {what} | {median(values):.4g} | {low:.4g} | {high:.4g} |")
TABLE
