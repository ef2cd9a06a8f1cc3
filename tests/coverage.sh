#!/usr/bin/env bash
# Line coverage of src/ and crates/ by all tests, including the processes that they start: for the workspace, for each
# package and each top-level module of gavel, and the uncovered lines of scoring and storage. Exits 1 below 80 % (or below $1).
#
#   tests/coverage.sh [percent]
#
# Needs cargo-tarpaulin (cargo install --locked --no-default-features cargo-tarpaulin) and python3. Servers: as run.sh.
# Excludes test code next to the code, and processes ended by SIGKILL.
set -euo pipefail
exec 2>&1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -n ${HOME:-} && -d $HOME/.cargo/bin ]] && PATH=$PATH:$HOME/.cargo/bin
least=${1:-80}

cargo tarpaulin --version >/dev/null 2>&1 || {
    echo "coverage.sh: cargo-tarpaulin is missing: cargo install --locked --no-default-features cargo-tarpaulin"
    exit 2
}
command -v python3 >/dev/null || {
    echo "coverage.sh: python3 is missing"
    exit 2
}

. tests/servers.sh
find_servers

# A separate target folder, because instrumented and plain builds would invalidate each other.
report=target/coverage/report
mkdir -p "$report"
say "tests with coverage"
# The timeout is for an entire test binary; hanging tests have their own limits.
tests=0
cargo tarpaulin --engine llvm --locked --workspace --tests --follow-exec --skip-clean --no-fail-fast --timeout 5400 \
    --include-files 'src/*' --include-files 'crates/*/src/*' --target-dir target/coverage --out Json --output-dir "$report" \
    >"$report/log" || tests=$?
grep -E '^(test .*FAILED|test result: |error)' "$report/log" || true
if ((tests)); then
    sed -n '/^failures:$/,/^test result/p' "$report/log"
    echo "coverage.sh: the tests failed; all they said is in $report/log"
    exit 1
fi

python3 - "$report/tarpaulin-report.json" "$least" <<'PYTHON'
import collections
import json
import pathlib
import sys

root = pathlib.Path.cwd()
watched = ("crates/gavel-rules/", "src/store/", "src/worker/process.rs")
least = float(sys.argv[2])
with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)

modules = collections.defaultdict(lambda: [0, 0])
missed = {}
for file in report["files"]:
    try:
        path = pathlib.Path(*file["path"]).relative_to(root).as_posix()
    except ValueError:
        continue
    if not path.startswith(("src/", "crates/")):
        continue
    module = path.split("/")[1].removesuffix(".rs")
    modules[module][0] += file["covered"]
    modules[module][1] += file["coverable"]
    lines = sorted(trace["line"] for trace in file["traces"] if not trace["stats"]["Line"])
    if lines and path.startswith(watched):
        missed[path] = lines


def ranges(lines):
    """[1, 2, 3, 7] as `1-3, 7`."""
    runs = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def percent(covered, coverable):
    return 100 * covered / coverable if coverable else 100.0


print("lines that no test reaches:")
for path, lines in sorted(missed.items()):
    print(f"  {path}: {ranges(lines)}")
print(f"{'module':<16} {'covered':>8} {'lines':>7} {'%':>7}")
for module, (covered, coverable) in sorted(modules.items()):
    print(f"{module:<16} {covered:>8} {coverable:>7} {percent(covered, coverable):>7.1f}")
covered = sum(pair[0] for pair in modules.values())
coverable = sum(pair[1] for pair in modules.values())
total = percent(covered, coverable)
print(f"line coverage {total:.1f} % ({covered} of {coverable} lines), at least {least:g} % wanted")
sys.exit(0 if total >= least else 1)
PYTHON
