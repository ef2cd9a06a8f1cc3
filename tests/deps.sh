#!/usr/bin/env bash
# Checks advisories, licences, bans and sources of the dependencies. The script below compares Cargo.lock and the licences
# with deny.toml. It also runs `cargo deny` if installed, with its advisory database if present
# (`cargo deny fetch`), because the script knows only the advisories in deny.toml. Changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if cargo deny --version >/dev/null 2>&1; then
    checks=(bans licenses sources)
    databases=("${CARGO_HOME:-$HOME/.cargo}"/advisory-db*/*)
    if [[ -e ${databases[0]} ]]; then
        checks+=(advisories)
    else
        echo "deps.sh: cargo-deny has no advisory database (cargo deny fetch): advisories aren't checked"
    fi
    cargo deny --offline --log-level error check --hide-inclusion-graph "${checks[@]}"
fi

if ! command -v python3 >/dev/null; then
    echo "deps.sh: needs python3 (Debian: apt install python3; macOS: brew install python)"
    exit 2
fi

metadata=$(mktemp)
trap 'rm -f "$metadata"' EXIT
cargo metadata --quiet --locked --format-version 1 >"$metadata"

python3 - "$metadata" <<'PYTHON'
import json
import re
import sys


def listed(text, section, key):
    """The strings of `key = [..]` in `[section]`; comments are left out."""
    body = re.search(rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", text, re.M | re.S).group(1)
    found = re.search(rf"^{key} = \[\n(.*?)^\]", body, re.M | re.S)
    return [line.strip() for line in found.group(1).splitlines() if line.strip() and not line.strip().startswith("#")]


def first_string(line):
    return re.match(r'"([^"]*)"', line).group(1)


def allowed_by(expression, allowed):
    """Whether an SPDX expression can be met with allowed licences; `/` is the old form of OR."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def one():
        nonlocal at
        if words[at] == "(":
            at += 1
            met = either()
            at += 1
            return met
        name = words[at]
        at += 1
        if at < len(words) and words[at] == "WITH":
            name = f"{name} WITH {words[at + 1]}"
            at += 2
        return name in allowed

    def both():
        nonlocal at
        met = one()
        while at < len(words) and words[at] == "AND":
            at += 1
            met = one() and met
        return met

    def either():
        nonlocal at
        met = both()
        while at < len(words) and words[at] == "OR":
            at += 1
            met = both() or met
        return met

    return either()


assert allowed_by("(MIT OR GPL-3.0) AND Zlib", {"MIT", "Zlib"})
assert not allowed_by("MIT AND GPL-3.0", {"MIT"})
assert allowed_by("Apache-2.0/GPL-3.0", {"Apache-2.0"})

rules = open("deny.toml", encoding="utf-8").read()
lock = open("Cargo.lock", encoding="utf-8").read()
licences = {first_string(line) for line in listed(rules, "licenses", "allow")}
banned = dict(
    re.search(r'crate = "([^"]+)", reason = "([^"]+)"', line).groups() for line in listed(rules, "bans", "deny")
)
registries = {"registry+" + first_string(line) for line in listed(rules, "sources", "allow-registry")}
metadata = json.load(open(sys.argv[1], encoding="utf-8"))
packages = metadata["packages"]
own = {package["name"] for package in packages if package["id"] in metadata["workspace_members"]}

faults = []
for package in packages:
    name = f"{package['name']} {package['version']}"
    licence = package["license"]
    if licence is None:
        faults.append(f"{name}: names no licence")
    elif not allowed_by(licence, licences):
        faults.append(f"{name}: licence {licence} isn't in deny.toml")
for entry in lock.split("[[package]]\n")[1:]:
    fields = dict(re.findall(r'^(\w+) = "([^"]*)"', entry, re.M))
    name = f"{fields['name']} {fields['version']}"
    if fields["name"] in banned:
        faults.append(f"{name}: banned: {banned[fields['name']]}")
    source = fields.get("source")
    if source is None and fields["name"] not in own:
        faults.append(f"{name}: comes from a path outside crates.io")
    elif source is not None and source not in registries:
        faults.append(f"{name}: comes from {source}, not from crates.io")
    elif source is not None and "checksum" not in fields:
        faults.append(f"{name}: has no checksum in Cargo.lock")
versions = {}
for package in packages:
    versions.setdefault(package["name"], set()).add(package["version"])
twice = sorted(name for name, found in versions.items() if len(found) > 1)

for fault in faults:
    print(f"deps.sh: {fault}")
print(
    f"deps.sh: {len(packages)} packages, {len(licences)} licences allowed, {len(banned)} crates banned, "
    f"{len(twice)} in more than one version, {len(faults)} faults"
)
sys.exit(1 if faults else 0)
PYTHON
