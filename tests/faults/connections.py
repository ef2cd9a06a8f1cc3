"""Connection limits: 1,000 idle streams with 200 requests a second, and 2,000 slow or silent connections.

python3 tests/faults/connections.py --binary target/dist/gavel [--only up|apart] [--figures benches/figures/connections.json]

Tests `gavel up`, then a `serve` and a `worker` over a private Postgres and Redis. Times are measured from the scheduled time of a
request. Exits with 1 if a request failed, a stream ended, or a slow connection stayed open longer than its timeout. Times depend on
the machine: the output includes the times of an idle server.
"""

import asyncio
import concurrent.futures
import itertools
import resource
import sys
import time
import uuid

import memory
import servers
import wire

STREAMS, SLOW, RATE, SECONDS = 1000, 2000, 200, 30
# Seconds after a timeout within which the server must close the connection.
GRACE = 5.0
CASE = {"generated_kql": "T | count", "expected_kql": "T | count", "generated_results": [[1]], "expected_results": [[1]]}
MIX = [
    ("GET", "/api/v1/jobs?limit=50", None),
    ("POST", "/api/v1/jobs", {"kind": "query", "payload": CASE}),
    ("GET", "/api/v1/sessions?limit=50", None),
    ("GET", "/", None),
    ("GET", "/api/v1/judges", None),
    ("POST", "/api/v1/jobs", {"kind": "query", "payload": CASE}),
    ("GET", "/api/v1/workers", None),
    ("GET", "/readyz", None),
]


def head(method, path, more=""):
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()


# First bytes, a byte for each second, and the seconds until the server must have closed: config/default.toml.
POST = head("POST", "/api/v1/jobs", "Content-Type: application/json\r\nContent-Length: 1000\r\n")
KINDS = {
    "says nothing": (b"", b"", 20),
    "half a head": (b"GET /livez HTTP/1.1\r\nHo", b"", 20),
    "a head, a byte a second": (b"GET /livez HTTP/1.1\r\nX: ", b"x", 20),
    "half a body": (POST + b"{", b"", 30),
    "a body, a byte a second": (POST + b"{", b" ", 60),
    "asks nothing more": (head("GET", "/livez"), b"", 75),
}
# These make up half of all, more than may be active requests.
BODIES = ["half a body", "a body, a byte a second"]


async def ask(http, due, request, found, more=""):
    await servers.at(due)
    method, path, body = request
    try:
        status, _, _ = await http.request(method, path, body, timeout=30.0, headers=more)
        fault = None if status < 400 else str(status)
    except wire.Gone as gone:
        fault = str(gone)
    if fault:
        found["errors"].append(f"{method} {path}: {fault}")
    found["times"].append(time.monotonic() - due)


async def load(port, requests, rate, seconds, more=""):
    """Sends this number of requests a second, without waiting for earlier ones."""
    http, began, found = wire.Http(port), time.monotonic(), {"times": [], "errors": []}
    requests = itertools.cycle(requests)
    await asyncio.gather(*(ask(http, began + n / rate, next(requests), found, more) for n in range(rate * seconds)))
    return memory.quantiles(found["times"]) | {"errors": len(found["errors"]), "first_errors": found["errors"][:3]}


async def stream(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head("GET", f"/api/v1/events?job_id={uuid.uuid4()}"))
    await asyncio.wait_for(reader.readuntil(b"event: hello"), 30)
    return reader, writer


async def whether_it_lasts(reader):
    while await reader.read(4096):
        pass


async def beside_streams(port):
    began = time.monotonic()
    streams = [await stream(port) for _ in range(STREAMS)]
    opened = time.monotonic() - began
    reading = [asyncio.create_task(whether_it_lasts(reader)) for reader, _ in streams]
    figures = await load(port, MIX, RATE, SECONDS)
    ended = sum(task.done() for task in reading)
    for task, (_, writer) in zip(reading, streams):
        task.cancel()
        writer.close()
    return figures | {"streams": STREAMS, "opened_s": round(opened, 1), "streams_ended": ended}


async def slow(port, kind, wait):
    """A slow connection: measures the time until the server closes it."""
    said, byte, timeout = KINDS[kind]
    await asyncio.sleep(wait)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    try:
        writer.write(said)
        while time.monotonic() - began < timeout + 2 * GRACE:
            try:
                if not await asyncio.wait_for(reader.read(4096), 1.0):
                    break
            except asyncio.TimeoutError:
                writer.write(byte)
    except OSError:
        pass
    writer.close()
    return kind, time.monotonic() - began


def slow_ones(port):
    """Opens all connections over two seconds, because the system would queue more at once."""

    async def together():
        kinds = itertools.islice(itertools.cycle([*KINDS, *BODIES]), SLOW)
        return await asyncio.gather(*(slow(port, kind, 2.0 * n / SLOW) for n, kind in enumerate(kinds)))

    return asyncio.run(together())


def beside_slow(port):
    """The load before and during slow connections, and the time until each of these closed."""
    reading, fresh = [request for request in MIX if request[0] == "GET"], "Connection: close\r\n"
    before = asyncio.run(load(port, reading, 50, 10, fresh))
    # In a separate process, so that they don't slow this one down.
    with concurrent.futures.ProcessPoolExecutor(1) as process:
        connections = process.submit(slow_ones, port)
        beside = asyncio.run(load(port, reading, 50, SECONDS, fresh))
        held = {}
        for kind, seconds in connections.result():
            held[kind] = max(held.get(kind, 0.0), round(seconds, 1))
    late = [kind for kind, seconds in held.items() if seconds > KINDS[kind][2] + GRACE]
    return {"connections": SLOW, "before": before, "beside": beside, "held_at_most_s": held, "held_too_long": late}


def resident(processes, key):
    return {name: memory.status_of(process.pid, key) // memory.MIB for name, process in processes.items()}


def streaming(port, processes):
    before, watch = resident(processes, "VmRSS"), memory.Watch(port)
    streams = asyncio.run(beside_streams(port))
    return {"streams": streams | watch.figures(), "before_mib": before, "peak_with_streams_mib": resident(processes, "VmHWM")}


def slowed(port, processes):
    """Load during more slow connections than the default limit, including connections with a pending body."""
    return {"slow": beside_slow(port), "peak_with_slow_mib": resident(processes, "VmHWM")}


def fine(figures):
    streams, slowly = figures["streams"], figures["slow"]
    errors = streams["errors"] + streams["streams_ended"] + slowly["before"]["errors"] + slowly["beside"]["errors"]
    return not errors and not slowly["held_too_long"]


if __name__ == "__main__":
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    settings = {"GAVEL_HTTP_MAX_STREAMS": str(STREAMS), "GAVEL_HTTP_MAX_CONNECTIONS": str(STREAMS + 100)}
    found = memory.figures_of(__doc__, (streaming, settings), (slowed, {}))
    sys.exit(0 if found and all(fine(of) for of in found.values()) else 1)
