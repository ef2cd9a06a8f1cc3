"""Memory under the worst that may be sent: 32 uploads and cases at once against a `gavel up` of its own, and what they take.

python3 tests/faults/memory.py --binary target/release/gavel [--figures benches/figures/memory.json]

Sends workbooks of shared texts, files of heavy items and cases of 520,000 cells, all together, while it asks for /livez every 20 ms.
Writes the peak of the process (VmHWM), what it holds a minute later (VmRSS), and the times of /livez; exits with 1 where one is
beyond its bound. Times hang on the machine: the bound for them is one of a release build.
"""

import argparse
import http.client
import io
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

MIB = 1 << 20
PEAK, AFTER, LIVE_P99 = 1024 * MIB, 200 * MIB, 0.05
AT_ONCE = 32
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def workbook(texts, rows):
    """A workbook of shared texts and of rows of cells that name them."""
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
    """A row of a sheet, by the numbers of its shared texts."""
    return "<row>" + "".join(f'<c t="s"><v>{text}</v></c>' for text in texts) + "</row>"


def requests():
    """The worst of each form, by name: path, media type, body."""
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


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ask(port, method, path, body=None, media_type=None, timeout=300):
    """One request of its own connection: the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": media_type} if media_type else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def watch(port, ended, times):
    """Asks for /livez every 20 ms."""
    while not ended.is_set():
        began = time.monotonic()
        ask(port, "GET", "/livez", timeout=60)
        times.append(time.monotonic() - began)
        ended.wait(0.02)


def until_live(port, process):
    """Waits until it answers."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit("gavel ended before it answered")
        try:
            if ask(port, "GET", "/livez", timeout=1) == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit("gavel doesn't answer")


def sent(port, name, request, answers):
    """Sends one, again as long as it is told to come again."""
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
    """Whether there is a job in a state."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", f"/api/v1/jobs?state={state}&limit=1")
        return json.loads(connection.getresponse().read())["items"]
    finally:
        connection.close()


def measured(port, process):
    """Sends them all at once, and says what that took."""
    worst = requests()
    names = [list(worst)[n % len(worst)] for n in range(AT_ONCE)]
    answers, times, ended = [], [], threading.Event()
    before = status_of(process.pid, "VmRSS")
    watching = threading.Thread(target=watch, args=(port, ended, times))
    watching.start()
    began = time.monotonic()
    threads = [threading.Thread(target=sent, args=(port, name, worst[name], answers)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    # The worker goes on with what was taken.
    while time.monotonic() - began < 1800 and any(jobs_in(port, state) for state in ("queued", "running")):
        time.sleep(1)
    worked = time.monotonic() - began
    ended.set()
    watching.join()
    peak = status_of(process.pid, "VmHWM")
    time.sleep(60)
    after = status_of(process.pid, "VmRSS")
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
        "before_mib": before // MIB,
        "peak_mib": peak // MIB,
        "a_minute_later_mib": after // MIB,
        "livez": len(times),
        "livez_p50_ms": round(statistics.median(times) * 1000, 1),
        "livez_p99_ms": round(statistics.quantiles(times, n=100)[98] * 1000, 1),
        "livez_max_ms": round(max(times) * 1000, 1),
        "held": peak < PEAK and after < AFTER,
        "livez_held": statistics.quantiles(times, n=100)[98] < LIVE_P99,
    }


def main():
    """Starts it, measures, and ends it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--figures")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [os.path.abspath(options.binary), "up", "--simulate", "--bind", f"127.0.0.1:{port}", "--data-dir", folder]
        with open(os.path.join(folder, "log"), "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            until_live(port, process)
            figures = measured(port, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.figures:
        with open(options.figures, "w") as file:
            file.write(text + "\n")
    sys.exit(0 if figures["held"] and figures["livez_held"] else 1)


if __name__ == "__main__":
    main()
