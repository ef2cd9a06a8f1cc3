#!/usr/bin/env bash
# Checks Dockerfile and docker-compose.yml: their commands, options, variables and referenced services exist, only the API
# is published and only on loopback, no password has a default, and no service has unnecessary privileges. Builds no image.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v python3 >/dev/null; then
    echo "deployment.sh: needs python3 (Debian: apt install python3; macOS: brew install python)"
    exit 2
fi
if docker compose version >/dev/null 2>&1; then
    POSTGRES_PASSWORD=checked docker compose --file docker-compose.yml config --quiet
fi

target=$(cargo metadata --no-deps --locked --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
gavel=$target/debug/gavel
[[ -x $gavel ]] || cargo build --quiet --locked --bin gavel

python3 - "$gavel" <<'PYTHON'
import json
import pathlib
import re
import subprocess
import sys

faults = []


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def without_comments(text):
    return re.sub(r"(^|\s)#.*", "", text)


def help_of(*command):
    return subprocess.run(
        [sys.argv[1], *command, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout


commands = {}


def check_command(where, words):
    """That `gavel WORDS..` names a command there is, with options it has."""
    listed = commands.setdefault("", help_of())
    if not re.search(rf"^\s+{re.escape(words[0])}\b", listed, re.M):
        faults.append(f"{where}: `gavel --help` lists no command {words[0]!r}")
        return
    text = commands.setdefault(words[0], help_of(words[0]))
    for word in words[1:]:
        option = word.split("=")[0]
        if option.startswith("--") and not re.search(rf"{re.escape(option)}\b", text):
            faults.append(f"{where}: `gavel {words[0]} --help` lists no option {option}")


compose = "\n".join(without_comments(line) for line in read("docker-compose.yml").splitlines())
block = re.search(r"^services:\n(.*?)(?=^\S|\Z)", compose, re.M | re.S).group(1)
parts = re.split(r"^  ([\w-]+):\n", block, flags=re.M)
services = dict(zip(parts[1::2], parts[2::2]))
volumes = set(re.findall(r"^  ([\w-]+):", (compose.split("\nvolumes:\n") + [""])[1], re.M))

ours = re.search(r"^x-gavel: &gavel\n(.*?)(?=^\S)", compose, re.M | re.S).group(1)
if not re.search(r"env_file:\s+- path: \.env\b", ours):
    faults.append("docker-compose.yml: x-gavel doesn't pass the variables of .env")

for name, text in services.items():
    where = f"docker-compose.yml: {name}"
    ours = "*gavel" in text
    command = re.search(r"^    command: (\[.*\])", text, re.M)
    if ours and not command:
        faults.append(f"{where}: says no command")
    elif ours:
        check_command(where, json.loads(command.group(1)))
    check = re.search(r'^      test: \["CMD", "gavel", (.*)\]', text, re.M)
    if check:
        check_command(f"{where}: healthcheck", json.loads(f"[{check.group(1)}]"))
    needs = re.search(r"^    depends_on:\n((?:      .*\n?)+)", text, re.M)
    for other, condition in re.findall(r"([\w-]+):\n +condition: (\w+)", needs.group(1) if needs else ""):
        if other not in services:
            faults.append(f"{where}: depends on {other}, which is no service")
        elif condition == "service_healthy" and "healthcheck:" not in services[other]:
            faults.append(f"{where}: waits until {other} is healthy, which has no health check")
        elif condition == "service_completed_successfully" and 'restart: "no"' not in services[other]:
            faults.append(f"{where}: waits until {other} ends, which is started again when it does")
    for port in re.findall(r'^      - "([\d.:]+)"', text, re.M):
        if name != "api" or not port.startswith("127.0.0.1:"):
            faults.append(f"{where}: publishes {port}; only the API is published, and only on 127.0.0.1")
    for volume in re.findall(r"^      - ([\w-]+):/", text, re.M):
        if volume not in volumes:
            faults.append(f"{where}: uses the volume {volume}, which isn't declared")
    if not ours and "<<: *hardened" not in text:
        faults.append(f"{where}: isn't hardened: add <<: *hardened")
    if "container_name" in text:
        faults.append(f"{where}: a container_name keeps it from being scaled")
hardened = re.search(r"^x-hardened:.*?(?=^\S)", compose[compose.index("x-hardened") :], re.M | re.S).group(0)
for right in ("read_only: true", 'cap_drop: ["ALL"]', "no-new-privileges:true"):
    if right not in hardened:
        faults.append(f"docker-compose.yml: x-hardened has no {right}")
if "x-gavel: &gavel\n  <<: *hardened" not in compose:
    faults.append("docker-compose.yml: x-gavel isn't hardened")
for default in re.findall(r"\$\{\w*PASSWORD\w*:?-[^}]*\}", compose):
    faults.append(f"docker-compose.yml: {default} is a password that everybody knows")
compose = re.sub(r"\$\{(\w+):\?[^}]*\}", r"\1", compose)
for scheme, rest in re.findall(r"_URL: (\w+)://(\S+)", compose):
    host, port = re.search(r"([\w-]+):(\d+)(?:/|$)", rest.split("@")[-1]).groups()
    if host not in services or {"postgres": "5432", "redis": "6379"}.get(scheme) != port:
        faults.append(f"docker-compose.yml: no service answers {scheme} at {host}:{port}")

dockerfile = without_comments(read("Dockerfile"))
stages = set(re.findall(r"^FROM \S+ AS (\S+)", dockerfile, re.M))
for stage in re.findall(r"--from=(\S+)", dockerfile):
    if stage not in stages:
        faults.append(f"Dockerfile: copies from {stage}, which is no stage")
rust = re.search(r'^rust-version = "([^"]+)"', read("Cargo.toml"), re.M).group(1)
if f"FROM rust:{rust}-" not in dockerfile:
    faults.append(f"Dockerfile: doesn't build with Rust {rust}, which Cargo.toml names")
if re.findall(r"^USER (\S+)", dockerfile, re.M)[-1:] in ([], ["root"], ["0"]):
    faults.append("Dockerfile: runs as root")
check_command("Dockerfile: HEALTHCHECK", json.loads(re.search(r"HEALTHCHECK .*CMD (\[.*\])", dockerfile).group(1))[1:])
check_command("Dockerfile: CMD", json.loads(re.search(r"^CMD (\[.*\])", dockerfile, re.M).group(1)))

# Variables of the program appear in its source or its configuration, or are keys of the settings: GAVEL_ and
# the key's path in capitals.
keys = set()
section = ""
settings = pathlib.Path("config/default.toml")
for line in read(settings).splitlines() if settings.exists() else []:
    if header := re.match(r"\[([\w.]+)\]", line):
        section = header.group(1).replace(".", "_") + "_"
    elif key := re.match(r"(\w+) = ", line):
        keys.add(f"GAVEL_{section}{key.group(1)}".upper())
folders = [path for folder in ("src", "config") for path in pathlib.Path(folder).rglob("*") if path.is_file()]
source = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in folders)
environment = re.search(r"^x-environment:.*?(?=^\S)", compose[compose.index("x-environment") :], re.M | re.S)
variables = set(re.findall(r"\bGAVEL_\w+", compose + dockerfile))
variables |= set(re.findall(r"^  ([A-Z_]+):", environment.group(0) if environment else "", re.M))
for variable in sorted(variables):
    if variable not in keys and not re.search(rf"\b{variable}\b", source):
        faults.append(f"docker-compose.yml, Dockerfile: {variable} is named nowhere in src/ or config/")

for fault in faults:
    print(f"deployment.sh: {fault}")
print(f"deployment.sh: {len(services)} services, {len(variables)} variables, {len(faults)} faults")
sys.exit(1 if faults else 0)
PYTHON
