#!/usr/bin/env bash
# Runs every check and test of Gavel, from any folder, on a clean clone.
#
#   tests/run.sh [--quick] [--embedded] [arguments of the test runner]
#
#   --quick      only the tests: no format, lint, docs, dependency, deployment, client and schema checks, and no fault drill
#   --embedded   no servers: only SQLite
#
# DATABASE_URL (postgres://..) and REDIS_URL name the servers to test with. For unset ones a private Postgres
# and a private Redis are started on free loopback ports, in a folder that is removed at the end. Tests create their databases
# and queues. Further arguments are passed to `cargo nextest run`, or to `cargo test` without nextest.
# Exit codes: 0 passed, 1 a check or a test failed, 2 a requirement is missing.
set -euo pipefail
exec 2>&1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -n ${HOME:-} && -d $HOME/.cargo/bin ]] && PATH=$PATH:$HOME/.cargo/bin

quick=no
embedded=no
runner_args=()
for argument in "$@"; do
    case $argument in
        --quick) quick=yes ;;
        --embedded) embedded=yes ;;
        -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) runner_args+=("$argument") ;;
    esac
done

failed=()

. tests/servers.sh

# Runs one step. Remembers a failure and continues.
step() {
    local name=$1
    shift
    say "$name: $*"
    "$@" || failed+=("$name")
}

# The short fault drill, on private servers. For the long one see CONTRIBUTING.md.
drill() {
    local status=0
    if ! command -v python3 >/dev/null; then
        say "faults: SKIPPED: THE DRILL OF FAULTS DOESN'T RUN: python3 is missing (Debian: apt install python3)"
        return
    fi
    python3 tests/faults/drill.py --short --binary "${CARGO_TARGET_DIR:-target}/debug/gavel" || status=$?
    if ((status == 2)); then
        say "faults: SKIPPED: THE DRILL OF FAULTS DOESN'T RUN: see what is missing above"
        return
    fi
    return "$status"
}

client() {
    local status=0
    tests/client.sh || status=$?
    if ((status == 2)); then
        say "client: SKIPPED: NO GENERATED CLIENT WALKS THE API: see what is missing above"
        return
    fi
    return "$status"
}

# Thousands of requests generated from the document.
schema() {
    local status=0
    tests/schema.sh || status=$?
    if ((status == 2)); then
        say "schema: SKIPPED: THE API IS NOT HELD AGAINST ITS DOCUMENT: see what is missing above"
        return
    fi
    return "$status"
}

command -v cargo >/dev/null || {
    echo "run.sh: cargo is missing: install Rust 1.95 or newer, see https://rustup.rs"
    exit 2
}
if cargo nextest --version >/dev/null 2>&1; then
    runner=(cargo nextest run --workspace --locked)
    build=(cargo nextest run --workspace --locked --no-run)
else
    say "cargo-nextest isn't installed: the tests run with cargo test"
    runner=(cargo test --workspace --locked --lib --bins --tests --no-fail-fast)
    build=(cargo test --workspace --locked --lib --bins --tests --no-run)
fi

started=$SECONDS
find_curl
find_browser
find_nginx
if [[ $embedded == yes ]]; then
    unset DATABASE_URL REDIS_URL REDIS_CLUSTER_URL
    say "embedded: SQLite only"
else
    find_servers
fi

if [[ $quick == no ]]; then
    step format cargo fmt --all --check
    step lints cargo clippy --workspace --all-targets --locked -- -D warnings
    step docs env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
    step dependencies tests/deps.sh
    step prose python3 tests/prose.py --budget 60
    step build "${build[@]}"
    step deployment tests/deployment.sh
    step client client
    step schema schema
    step doctests cargo test --workspace --doc --locked --quiet
fi
step tests "${runner[@]}" ${runner_args[@]+"${runner_args[@]}"}
if [[ $quick == no && $embedded == no ]]; then
    step faults drill
fi

if ((${#failed[@]})); then
    echo "run.sh: FAILED in $((SECONDS - started)) s: ${failed[*]}"
    exit 1
fi
echo "run.sh: passed in $((SECONDS - started)) s"
