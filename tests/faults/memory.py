"""Peak memory under the worst input: 32 concurrent uploads and cases.

python3 tests/faults/memory.py --binary target/dist/gavel [--only up|apart] [--figures benches/figures/memory.json]

Tests `gavel up`, then a `serve` and a `worker` over a private Postgres and Redis. Sends workbooks of shared texts,
files of heavy items and cases of 520,000 cells, all together, while it requests /livez every 20 ms. Writes the peak of each process
(VmHWM), its memory a minute later (VmRSS), and the times of /livez; exits with 1 if one exceeds its limit. Times depend on the
machine: their limit is for a release build, and the output includes the times of an idle server.
"""

import argparse
import asyncio
import http.client
import http.server
import io
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
import zipfile

import servers

MIB = 1 << 20
PEAK_MIB, AFTER_MIB, LIVE_P99_MS = 1024, 200, 50
AT_ONCE = 32
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def workbook(texts, rows):
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{RELATIONS}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {MAIN} xmlns:r="{RELATIONS}"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" Type="{RELATIONS}/sharedStrings" '
        'Target="sharedStrings.xml"/></Relationships>',
        "xl/sharedStrings.xml": f"<sst {MAIN}>{texts}</sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>",
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def row(*texts):
    return "<row>" + "".join(f'<c t="s"><v>{text}</v></c>' for text in texts) + "</row>"


def requests():
    """The worst input of each format, by name: path, media type, body."""
    columns = ["generated_kql", "expected_kql", "generated_results", "expected_results"]
    cells = [[1] * 500] * 520
    case = {"generated_kql": "T", "expected_kql": "T", "generated_results": cells, "expected_results": cells}
    lists = "[" + ",".join(["[]"] * 120_000) + "]"
    named = "".join(f"<si><t>{text}</t></si>" for text in [*columns, "T", lists])
    few = "".join(f"<si><t>{text}</t></si>" for text in [*columns, "T", "[]"])
    return {
        "a text that is shared by many cells": ("/api/v1/batches?kind=query", XLSX, workbook(named, row(0, 1, 2, 3) + row(4, 4, 5, 5) * 300)),
        "ten million empty shared texts": ("/api/v1/batches?kind=query", XLSX, workbook(few + "<si/>" * 9_900_000, row(0, 1) + row(4, 4))),
        "a case of 520,000 cells": ("/api/v1/jobs", "application/json", json.dumps({"kind": "query", "payload": case}, separators=(",", ":")).encode()),
        "a file of such cases": ("/api/v1/batches?kind=query", "application/x-ndjson", (json.dumps(case, separators=(",", ":")) + "\n").encode() * 8),
    }


def status_of(pid, key):
    """A line of /proc/PID/status, in bytes."""
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith(key + ":"))
    return int(line.split()[1]) << 10


def ask(port, method, path, body=None, media_type=None, timeout=300):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": media_type} if media_type else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


class Nothing(http.server.BaseHTTPRequestHandler):
    """An idle server. Its latency is the machine's."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Disables the log."""


class Watch:
    """Requests /livez every 20 ms, and then an idle server. Both have separate processes."""

    def __init__(self, port):
        nothing = http.server.HTTPServer(("127.0.0.1", 0), Nothing)
        self.ended = multiprocessing.Event()
        self.times, sender = multiprocessing.Pipe(duplex=False)
        self.processes = [
            multiprocessing.Process(target=nothing.serve_forever, daemon=True),
            multiprocessing.Process(target=self.run, args=((port, nothing.server_port), sender), daemon=True),
        ]
        for process in self.processes:
            process.start()

    def run(self, ports, sender):
        times = [[], []]
        while not self.ended.is_set():
            for port, of_port in zip(ports, times):
                began = time.monotonic()
                ask(port, "GET", "/livez", timeout=60)
                of_port.append(time.monotonic() - began)
            self.ended.wait(0.02)
        sender.send(times)

    def figures(self):
        """Stops it and returns both lists of times."""
        self.ended.set()
        live, nothing = self.times.recv()
        self.processes[0].terminate()
        return {"livez": quantiles(live), "a_server_that_does_nothing": quantiles(nothing)}


def quantiles(times):
    cuts = statistics.quantiles(times, n=100)
    figures = {"p50_ms": statistics.median(times), "p99_ms": cuts[98], "max_ms": max(times)}
    return {"n": len(times)} | {name: round(time * 1000, 1) for name, time in figures.items()}


def until_live(port, processes):
    for _ in range(600):
        if any(process.poll() is not None for process in processes.values()):
            sys.exit("gavel ended before it answered")
        try:
            if ask(port, "GET", "/livez", timeout=1) == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("gavel doesn't answer")


def up(place, binary, settings):
    """`gavel up`: its port, and the process by name."""
    port = servers.free_port()
    command = [binary, "up", "--simulate", "--bind", f"127.0.0.1:{port}", "--data-dir", os.path.join(place.folder, "data")]
    processes = {"up": place.start("up", command, settings)}
    until_live(port, processes)
    return port, processes


def apart(place, binary, settings):
    """An API and a worker: the API's port, and both processes by name. None if Postgres or Redis is missing."""
    postgres, redis = servers.PostgresServer(place), servers.RedisServer(place)
    if not (postgres.program and redis.program):
        print("SKIPPED: SERVE AND WORKER APART: Postgres or Redis is missing (Debian: apt install postgresql redis-server)")
        return None
    asyncio.run(postgres.make())
    asyncio.run(redis.again())
    port, judge = servers.free_port(), servers.free_port()
    settings = settings | {
        "DATABASE_URL": f"postgres://gavel@127.0.0.1:{postgres.port}/postgres",
        "REDIS_URL": redis.url,
        "DEFAULT_LLM_PROVIDER": "simulated",
        "GAVEL_SIMULATED_URL": f"http://127.0.0.1:{judge}/v1",
    }
    place.start("judge", [binary, "simulate-judge", "--port", str(judge)], settings)
    if place.start("migrate", [binary, "migrate"], settings).wait(60):
        sys.exit("gavel migrate failed")
    commands = {"serve": ["serve", "--bind", f"127.0.0.1:{port}"], "worker": ["worker"]}
    processes = {name: place.start(name, [binary, *command], settings) for name, command in commands.items()}
    until_live(port, processes)
    return port, processes


SET_UPS = {"up": up, "apart": apart}


def sent(port, name, request, answers):
    """Sends a request, and retries while the response requests it."""
    path, media_type, body = request
    while True:
        try:
            status = ask(port, "POST", path, body, media_type)
        except OSError as error:
            status = type(error).__name__
        answers.append((name, status))
        if status != 503:
            return
        time.sleep(5)


def jobs_in(port, state):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", f"/api/v1/jobs?state={state}&limit=1")
        return json.loads(connection.getresponse().read())["items"]
    finally:
        connection.close()


def measured(port, processes):
    """Sends all of them concurrently, and prints time and memory."""
    worst = requests()
    names = [list(worst)[n % len(worst)] for n in range(AT_ONCE)]
    answers = []
    memory = {name: {"before_mib": status_of(process.pid, "VmRSS") // MIB} for name, process in processes.items()}
    watch = Watch(port)
    began = time.monotonic()
    threads = [threading.Thread(target=sent, args=(port, name, worst[name], answers)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    # The worker still runs the accepted cases.
    while time.monotonic() - began < 1800 and any(jobs_in(port, state) for state in ("queued", "running")):
        time.sleep(1)
    worked = time.monotonic() - began
    times = watch.figures()
    time.sleep(60)
    for name, process in processes.items():
        memory[name]["peak_mib"] = status_of(process.pid, "VmHWM") // MIB
        memory[name]["a_minute_later_mib"] = status_of(process.pid, "VmRSS") // MIB
    counts = {}
    for name, status in answers:
        counts.setdefault(name, {}).setdefault(str(status), 0)
        counts[name][str(status)] += 1
    return {
        "requests": AT_ONCE,
        "bytes": {name: len(worst[name][2]) for name in worst},
        "answers": counts,
        "answered_s": round(took, 1),
        "worked_s": round(worked, 1),
        **memory,
        **times,
        "held": all(of["peak_mib"] < PEAK_MIB and of["a_minute_later_mib"] < AFTER_MIB for of in memory.values()),
        "livez_held": times["livez"]["p99_ms"] < LIVE_P99_MS,
    }


def figures_of(description, *measures):
    """Starts each selected set-up once per measurement with its settings, measures it, and stops it; writes the results."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--only", choices=SET_UPS)
    arguments.add_argument("--figures")
    options = arguments.parse_args()
    figures = {}
    for name, (measure, settings) in itertools.product(SET_UPS, measures):
        place = servers.Place(keep=False)
        try:
            start = SET_UPS[name]
            if options.only in (None, name) and (started := start(place, os.path.abspath(options.binary), settings)):
                figures.setdefault(name, {}).update(measure(*started))
        finally:
            place.clean()
    text = json.dumps(figures, indent=2)
    print(text)
    if options.figures:
        os.makedirs(os.path.dirname(os.path.abspath(options.figures)), exist_ok=True)
        with open(options.figures, "w") as file:
            file.write(text + "\n")
    return figures


if __name__ == "__main__":
    found = figures_of(__doc__, (measured, {}))
    sys.exit(0 if found and all(of["held"] and of["livez_held"] for of in found.values()) else 1)
