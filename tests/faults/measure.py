"""Measurements: skewed clocks, a shared rate limit, a rolling release and a noisy judge."""

import asyncio
import collections
import math
import signal
import time

import cluster
import servers
import wire


async def run(args, place, say):
    """Runs a measurement and returns whether it passed."""
    return await {"skew": skew, "pace": pace, "roll": roll, "degraded": degraded, "connections": connections}[args.measure](args, place, say)


def quantile(values, part):
    """A quantile by the nearest rank."""
    values = sorted(values)
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else float("nan")


async def whole(c, load, patience=600.0):
    await load.task
    began = time.monotonic()
    seconds, left = await cluster.wait_for_end(c.postgres.control.rows, load.accepted, began, patience)
    return seconds, left, await cluster.verdict(c.postgres.control.rows, load)


async def skew(args, place, say):
    """Latency from POST to the judge's call, without and with skewed clocks, in alternating rounds."""
    if not servers.faketime():
        say("SKIPPED: SKEW: libfaketime is missing (Debian: apt install faketime)")
        return False
    c = cluster.Cluster(place, args.binary, args.seed)
    c.stub.delay = 0.02
    await c.start()
    variants = [("no skew", None, ""), ("API +20 ms", c.api, "+0.02s"), ("API +6 s", c.api, "+6s"),
                ("API -1 h", c.api, "-3600s"), ("worker +1 h", c.workers[0], "+3600s")]
    found, jobs, bad = collections.defaultdict(list), 200, 0
    for turn in range(3):
        for name, service, offset in variants:
            # Every variant restarts all processes, so that they differ only by the clock.
            for each in [c.api, *c.workers]:
                await each.restart(servers.clock(offset) if each is service else None)
            await c.is_live()
            load = cluster.Load(c.http, jobs, 20.0, c.chance)
            load.start()
            _, left, verdict = await whole(c, load)
            bad += len(left) + verdict.lost + verdict.twice
            times = [(c.stub.first_call[load.sessions[key]] - at) * 1000 for key, at in load.posted_at.items()
                     if load.sessions[key] in c.stub.first_call]
            found[name] += times[20:]
            say(f"    round {turn + 1}, {name}: p50 {quantile(times[20:], 0.5):.1f} ms, p99 {quantile(times[20:], 0.99):.1f} ms")
    plain = quantile(found["no skew"], 0.99)
    print("\n| clocks | POSTs | p50 ms | p99 ms | p99 against no skew |\n| --- | --- | --- | --- | --- |")
    for name, times in found.items():
        p99 = quantile(times, 0.99)
        print(f"| {name} | {len(times)} | {quantile(times, 0.5):.1f} | {p99:.1f} | {p99 - plain:+.1f} ms |")
    within = all(quantile(times, 0.99) - plain <= 20.0 for times in found.values())
    print(f"\nskew: {'passed' if within and not bad else 'FAILED'}: p99 within 20 ms of no skew; lost or twice: {bad}", flush=True)
    return within and not bad


def busiest(times, window=60.0):
    """The maximum number of calls in any window."""
    most, first = 0, 0
    for last, at in enumerate(times):
        while times[first] <= at - window:
            first += 1
        most = max(most, last - first + 1)
    return most


async def pace(args, place, say):
    """300 requests a minute as counted by the judge: three workers, then one is killed and one added."""
    limit, minutes = 300, 2
    c = cluster.Cluster(place, args.binary, args.seed, [f"requests_per_minute: {limit}"], workers=4)
    spare = c.workers.pop()
    await c.start()
    c.workers.append(spare)
    # More than three workers with separate limits could send.
    load = cluster.Load(c.http, 3 * limit * (2 * minutes + 1), 100.0, c.chance)
    load.start()
    if not await servers.until(lambda: asyncio.sleep(0, bool(c.stub.calls)), 30):
        say("no call came")
        return False
    passed, lines = True, []
    for name in ("three workers", "one killed, one added in the middle"):
        began = time.monotonic()
        if name != "three workers":
            await asyncio.sleep(minutes * 30.0)
            await c.workers[0].end()
            spare.start()
            await asyncio.sleep(minutes * 30.0)
        else:
            await asyncio.sleep(minutes * 60.0)
        lasted = time.monotonic() - began
        # Includes windows that started before this part.
        times = [at for at, _, _, _ in c.stub.calls if at >= began - 60.0]
        used = sum(1 for at in times if at >= began) / (limit * lasted / 60.0)
        most = busiest(times)
        passed = passed and most <= limit and used >= 0.95
        lines.append(f"| {name} | {lasted:.0f} | {most} | {used * 100:.1f} % |")
        say(lines[-1])
    print("\n| 300 a minute | seconds | most in any 60 s | used |\n| --- | --- | --- | --- |\n" + "\n".join(lines))
    print(f"\npace: {'passed' if passed else 'FAILED'}: at most {limit} in any 60 s, at least 95 % used", flush=True)
    load.task.cancel()
    return passed


class Balancer:
    """A load balancer over several APIs: requests rotate over the APIs in service."""

    def __init__(self, *ports):
        self.behind = [wire.Http(port) for port in ports]
        self.turn = 0

    async def request(self, method, path, body=None, timeout=5.0):
        self.turn += 1
        return await self.behind[self.turn % len(self.behind)].request(method, path, body, timeout)

    async def add(self, port):
        """Adds an API once it is ready."""
        http = wire.Http(port)

        async def ready():
            try:
                return (await http.request("GET", "/readyz"))[0] == 200
            except wire.Gone:
                return False

        if not await servers.until(ready, 60):
            raise RuntimeError("the new API isn't ready: see serve-new.log")
        self.behind.append(http)

    def remove(self, port):
        self.behind = [http for http in self.behind if http.port != port]


async def roll(args, place, say):
    """Under load: an old release, the new migration, both releases together, then only the new one."""
    c = cluster.Cluster(place, args.old, args.seed)
    await c.start()
    front = Balancer(c.port)
    load = cluster.Load(front, 40 * 75, 40.0, c.chance)
    load.start()
    await asyncio.sleep(8.0)
    say("gavel migrate of the new release, while the old one runs")
    c.migrate(args.binary)
    await asyncio.sleep(8.0)
    say("a new API and a new worker beside the old ones")
    port = servers.free_port()
    api = cluster.Service(c, "serve-new", ["serve"], {"GAVEL_BIND": f"127.0.0.1:{port}"})
    fresh = [cluster.Service(c, f"worker-new-{n + 1}", ["worker"], {}) for n in range(3)]
    api.start(binary=args.binary)
    fresh[0].start(binary=args.binary)
    await front.add(port)
    await asyncio.sleep(15.0)
    stops = {}
    for old, new in zip(c.workers, [*fresh[1:], None]):
        say(f"{old.name} stops")
        stops[old.name] = await old.end(signal.SIGTERM)
        if new:
            new.start(binary=args.binary)
        await asyncio.sleep(4.0)
    front.remove(c.port)
    await asyncio.sleep(1.0)
    say("the old API stops")
    stops["serve"] = await c.api.end(signal.SIGTERM)
    seconds, left, found = await whole(c, load, 120.0)
    for service in [api, *fresh]:
        stops[service.name] = await service.end(signal.SIGTERM)
    refused = load.refusals()
    print(f"\njobs {found.jobs}, lost {found.lost}, twice {found.twice + found.superseded}, failed {dict(found.failed)}, "
          f"refused {dict(refused)}, never ended {len(left)}, the last {seconds:.1f} s after the load")
    print("stopped after: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stops.items()))
    passed = not (found.lost or found.twice or found.superseded or found.failed or refused or left or found.jobs == 0)
    print(f"\nroll: {'passed' if passed else 'FAILED'}: no 5xx, nothing lost, nothing twice", flush=True)
    return passed


async def degraded(args, place, say):
    """1,000 jobs, 96 slots, a judge of 100 ms that returns 429 (Retry-After: 1) for 15 % and 500 for 15 % of calls, at random."""
    c = cluster.Cluster(place, args.binary, args.seed)
    c.stub.delay = 0.1
    await c.start({"GAVEL_WORKER_CONCURRENCY": "32"})
    figures = {}
    for mode in ("good", "noisy"):
        c.stub.say(mode)
        load = cluster.Load(c.http, 1000, 1000.0, c.chance)
        began = time.monotonic()
        load.start()
        _, left, found = await whole(c, load, 600.0)
        figures[mode] = time.monotonic() - began
        calls, most = c.stub.calls_per_job(load.sessions.values())
        say(f"{mode}: {figures[mode]:.1f} s, {calls:.2f} calls a job, at most {most}; lost {found.lost + len(left)}, "
            f"twice {found.twice + found.superseded}, failed {dict(found.failed)}")
    print(f"\ndegraded: 1,000 jobs in {figures['noisy']:.1f} s (without faults {figures['good']:.1f} s)", flush=True)
    return not (left or found.lost or found.twice or found.superseded)


async def scarce(args, folder, slots, workers):
    """A cluster on a server with this many connections, with a role that can't use those reserved for superusers."""
    c = cluster.Cluster(folder, args.binary, args.seed, workers=workers)
    c.postgres.slots = slots
    await c.postgres.make()
    await c.postgres.control.rows("create role few login; alter database postgres owner to few; alter schema public owner to few")
    c.postgres.url = f"postgres://few@127.0.0.1:{c.postgres.port}/postgres"
    await c.redis.again()
    await c.stub.start()
    c.stub.delay = 0.1
    c.settings()
    c.migrate(c.binary)
    c.api.start()
    for worker in c.workers:
        worker.start({"GAVEL_WORKER_HEALTH_BIND": ""})
    await c.is_live()
    return c


async def rest(c):
    await asyncio.sleep(25.0)
    return await opened(c)


async def opened(c):
    count = "select count(*) from pg_stat_activity where usename = 'few' and backend_type = 'client backend'"
    return int((await c.postgres.control.rows(count))[0][0])


async def connections(args, place, say):
    """20 jobs a second with 100 and with 25 connections, one API and three workers; then 30 workers on 100."""
    figures, bad = {}, 0
    for slots, workers in [(100, 3), (25, 3), (100, 30)]:
        part = servers.Place(args.keep)
        try:
            c = await scarce(args, part, slots, workers)
            figures[slots, workers], worse = await with_connections(args, c, say)
            await c.stub.close_port()
        finally:
            part.clean()
        bad += worse
    ratio = figures[25, 3] / figures[100, 3]
    passed = not bad and ratio <= 2.0
    print(f"\nconnections: {'passed' if passed else 'FAILED'}: p99 with 25 is {ratio:.2f} of that with 100; lost, twice, failed or dead: {bad}")
    return passed


async def with_connections(args, c, say):
    """One load: its p99 from POST to the job's end in ms, and the numbers of lost, duplicate, failed and dead."""
    workers, offset, most = len(c.workers), time.time() - time.monotonic(), 0
    load = cluster.Load(c.http, args.jobs if workers == 3 else args.jobs // 4, 20.0, c.chance)
    load.start()
    while not load.task.done():
        await asyncio.sleep(1.0)
        most = max(most, await opened(c))
    _, left, found = await whole(c, load)
    ended = dict(await c.postgres.control.rows("select subject_id, extract(epoch from finished_at) from scoring_jobs"))
    times = [(float(ended[key]) - offset - at) * 1000 for key, at in load.posted_at.items() if ended.get(key)]
    p50, p99 = quantile(times[20:], 0.5), quantile(times[20:], 0.99)
    alive = await c.postgres.control.rows(
        "select count(*) from workers where state = 'running' and not declared_dead and heartbeat_at > now() - interval '5 s'"
    )
    _, _, ready = await c.http.request("GET", "/readyz")
    say(f"    {c.postgres.slots} connections, {workers} workers: p50 {p50:.1f} ms, p99 {p99:.1f} ms, at most {most} connections, "
        f"{await rest(c)} at rest; {alive[0][0]} workers alive, lost {found.lost + len(left)}, twice {found.twice}, failed "
        f"{dict(found.failed)}, refused {dict(load.refusals())}; /readyz {ready.get('status')} {ready.get('reasons')}")
    return p99, len(left) + found.lost + found.twice + sum(found.failed.values()) + abs(workers - int(alive[0][0]))
