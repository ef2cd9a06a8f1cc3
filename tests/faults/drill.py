#!/usr/bin/env python3
"""The fault drill: checks from outside that no job is lost or scored more than once, and that the service recovers.

It shares no code with the product. Private servers (Postgres behind a proxy, Redis, a judge), one API and three workers
with default settings; injects all failures in sequence under load and prints a table. Loopback only.

  drill.py --short --binary target/debug/gavel             a few failures, about a minute: lost and twice must be 0
  drill.py --jobs 2000 --binary target/release/gavel       every failure; recovery bounds must hold as well
  drill.py --mixed --jobs 20000 --seconds 300 --every 2    a random failure every 2 s
  drill.py --only redis,frozen                             failures with one of these texts in the name
  drill.py --measure skew|pace|roll|degraded|connections   measurements; roll needs --old BINARY

Exit codes: 0 passed, 1 a job was lost, scored more than once, or too late, 2 a requirement is missing.
"""

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True

import cluster
import embedded
import faults
import measure
import rescore
import servers
import wire

COLUMNS = ["fault", "jobs", "lost", "twice", "calls/job", "most", "recovered s", "served s", "rest s", "bound", "failed", "refused", "notes"]


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Row:
    def __init__(self, name, bound):
        self.name, self.bound = name, bound
        self.jobs = self.lost = self.twice = self.most = 0
        self.calls = self.recovered = self.served = self.rest = 0.0
        self.failed, self.refused, self.notes = "", "", []
        # Whether calls with a reply must not be repeated, and the number of 500 responses.
        self.once, self.internal = False, 0
        # Jobs that hadn't ended, and clients without a response, at the drill's timeout.
        self.stuck = 0

    def late(self):
        return self.bound is not None and max(self.recovered, self.served) > self.bound

    def bad(self, bounds):
        shouted = any(note.isupper() or "PROBES" in note or "NOTHING" in note for note in self.notes)
        broken = self.internal or (self.once and self.most > 1)
        return bool(self.lost or self.twice or self.stuck or broken or (bounds and (self.late() or shouted or self.failed)))

    def cells(self):
        return [
            self.name, str(self.jobs), str(self.lost), str(self.twice), f"{self.calls:.2f}", str(self.most),
            f"{self.recovered:.1f}", f"{self.served:.1f}", f"{self.rest:.1f}", "" if self.bound is None else str(self.bound),
            self.failed or "0", self.refused or "0", "; ".join(self.notes),
        ]


def counted(counts):
    return ", ".join(f"{what} x {n}" for what, n in counts.most_common(4))


def table(rows):
    cells = [COLUMNS, *[row.cells() for row in rows]]
    widths = [max(len(line[at]) for line in cells) for at in range(len(COLUMNS) - 1)]
    lines = ["| " + " | ".join([*[text.ljust(width) for text, width in zip(line, widths)], line[-1]]) + " |" for line in cells]
    lines.insert(1, "| " + " | ".join(["-" * width for width in widths] + ["---"]) + " |")
    return "\n".join(lines)


async def judged(row, run, judge, everything=False):
    """Waits until all jobs have ended, and fills in the row."""
    load, rows = run.load, run.rows
    if run.over_at is None:
        run.over()
    await load.task
    ended = time.monotonic()
    row.recovered, left = await run.waiting
    row.rest, more = await cluster.wait_for_end(rows, load.accepted, max(ended, run.over_at))
    row.served = load.served_again(run.over_at)
    row.stuck = len(left | more) + load.given_up
    if left or more:
        run.notes.append(f"{len(left | more)} jobs never ended")
    found = await cluster.verdict(rows, load, everything)
    row.jobs, row.lost, row.twice = found.jobs, found.lost, found.twice + found.superseded
    row.failed, row.refused = counted(found.failed), counted(load.refusals())
    row.internal = sum(what.startswith("500") for _, _, what in load.refused)
    row.calls, row.most = judge.calls_per_job(load.sessions.values())
    row.notes = run.notes + found.notes
    return row


class Drill:
    def __init__(self, args, place):
        self.args, self.place = args, place
        self.rows = []
        self.cluster = None

    def load(self, http, jobs, lasts):
        chance = self.cluster.chance if self.cluster else random.Random(self.args.seed)
        return cluster.Load(http, jobs, min(self.args.rate, jobs / (lasts + 4.0)), chance)

    def keep(self, row):
        self.rows.append(row)
        say("    " + " | ".join(f"{name} {cell}" for name, cell in zip(COLUMNS[1:], row.cells()[1:])))

    def wanted(self):
        """The failures to run, and reasons for skipping others."""
        words = [word.strip() for word in self.args.only.split(",") if word.strip()]
        chosen = []
        for fault in faults.FAULTS:
            if words and not any(word.lower() in fault.name.lower() for word in words):
                continue
            if self.args.short and not words and not fault.short:
                continue
            lacking = fault.needs() if fault.needs else ""
            if lacking:
                say(f"SKIPPED: {fault.name.upper()}: {lacking} is missing")
                continue
            chosen.append(fault)
        return chosen

    async def shared(self):
        chosen = self.wanted()
        if not chosen and not self.args.mixed:
            return
        self.cluster = c = cluster.Cluster(self.place, self.args.binary, self.args.seed)
        await c.start()
        say(f"Postgres {c.postgres.port} behind {c.postgres.proxy_port}, Redis {c.redis.port}, judge {c.stub.port}, API {c.port}")
        backlog = None
        if self.args.rescore:
            backlog = rescore.Backlog(c, self.args.rescore)
            await backlog.start(say)
        if self.args.mixed:
            self.keep(await self.storm(backlog))
        else:
            for number, fault in enumerate(chosen):
                say(f"{number + 1}/{len(chosen)} {fault.name}")
                self.keep(await self.one(fault))
                if backlog:
                    await backlog.again()
        if backlog:
            self.keep(await backlog.verdict(Row))
        await self.postgres_is_quiet()

    async def one(self, fault):
        c, row = self.cluster, Row(fault.name, fault.bound)
        row.once = fault.once
        run = faults.Run(c, self.load(c.http, self.args.jobs, fault.lasts), c.postgres.control.rows)
        try:
            await fault.act(c, run)
        except wire.Gone as gone:
            run.notes.append(f"the fault ended early: {str(gone)[:100]}")
        if run.load.task is None:
            run.load.start()
        await judged(row, run, c.stub)
        try:
            if run.afterwards:
                await run.afterwards()
            await c.heal()
            trouble = row.lost or row.stuck or row.late()
        except RuntimeError as error:
            row.notes.append(str(error))
            trouble = True
        if trouble:
            say("    every process is started anew, so that the next fault meets a healthy cluster")
            await c.reset()
        c.stub.calls.clear()
        return row

    async def storm(self, backlog):
        """A random failure every few seconds, and the result after all have ended."""
        c, args = self.cluster, self.args
        row = Row(f"a random fault every {args.every:g} s for {args.seconds:g} s", None)
        run = faults.Run(c, cluster.Load(c.http, args.jobs, args.jobs / args.seconds, c.chance), c.postgres.control.rows)
        storm = faults.Storm(c, args.seed)
        run.load.start()
        end, rescoring = time.monotonic() + args.seconds, None
        while time.monotonic() < end:
            name = storm.strike()
            if backlog and (rescoring is None or rescoring.done()):
                rescoring = asyncio.create_task(backlog.again())
            left = end - time.monotonic()
            say(f"    {name or 'everything is broken already'}; {len(run.load.accepted)} accepted, {left:.0f} s to go")
            await asyncio.sleep(args.every)
        await storm.end()
        run.over()
        if rescoring:
            await asyncio.wait([rescoring])
            if rescoring.exception():
                run.notes.append(str(rescoring.exception()))
        try:
            await c.heal()
        except RuntimeError as error:
            run.notes.append(str(error))
        await judged(row, run, c.stub)
        row.notes.append("; ".join(f"{name} x {n}" for name, n in sorted(storm.count.items())))
        return row

    async def postgres_is_quiet(self):
        """Stops the shared processes, because the embedded failures need the machine."""
        for service in [self.cluster.api, *self.cluster.workers]:
            if service.runs():
                await service.end()

    async def embedded(self):
        words = self.args.only.lower()
        times = 5 if self.args.short else 50
        full = 5 if self.args.short else 15
        named = (f"up killed {times} times", f"up on a disk that is full for {full} s")
        wanted = [not words or any(word.strip() in name for word in words.split(",")) for name in named]
        if wanted[0]:
            data = os.path.join(self.place.folder, "data-kills")
            await self.up(named[0], data, 1.6 * times, lambda up, run: embedded.kills(up, run, times), 10)
        if wanted[1]:
            data = self.place.mount_memory("data-full", 40) if servers.ROOT else ""
            if not data:
                say("SKIPPED: A FULL DISK: a tmpfs can't be mounted here (root is needed)")
                return
            await self.up(named[1], data, full + 3, lambda up, run: embedded.full_disk(up, run, full), 10)

    async def up(self, name, data_dir, lasts, act, bound):
        say(name)
        up = embedded.Embedded(self.place, self.args.binary, data_dir, self.args.seed)
        await up.stub.start()
        row = Row(name, bound)
        run = faults.Run(up, self.load(up.http, min(self.args.jobs, 600), lasts), up.rows)
        await act(up, run)
        await judged(row, run, up.stub, everything=True)
        await up.up.end()
        await up.stub.close_port()
        self.keep(row)

    async def run(self):
        """Runs all selected parts and returns whether they passed."""
        if self.args.measure:
            return await measure.run(self.args, self.place, say)
        try:
            await self.shared()
            if not self.args.mixed:
                await self.embedded()
        finally:
            if self.rows:
                print("\n" + table(self.rows) + "\n", flush=True)
        bounds = not self.args.short
        bad = [row.name for row in self.rows if row.bad(bounds)]
        if not self.rows:
            say("no fault has such a name")
            return False
        print(f"drill: {'FAILED: ' + ', '.join(bad) if bad else 'passed'} ({len(self.rows)} rows, seed {self.args.seed})", flush=True)
        return not bad


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/gavel", help="the gavel to drill")
    parser.add_argument("--old", help="an older gavel, for --measure roll")
    parser.add_argument("--short", action="store_true", help="a few faults; no bounds of recovery")
    parser.add_argument("--mixed", action="store_true", help="random faults, over each other")
    parser.add_argument("--measure", choices=["skew", "pace", "roll", "degraded", "connections"])
    parser.add_argument("--only", default="", help="words of the faults to run, separated by commas")
    parser.add_argument("--jobs", type=int, help="jobs per fault (short 120, long 2000, mixed 20000)")
    parser.add_argument("--rate", type=float, help="jobs a second at most (short 40, long 100)")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long --mixed lasts")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between the faults of --mixed")
    parser.add_argument("--rescore", type=int, help="sessions that are rescored by force meanwhile (long 3000; 0: none)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of everything that is random")
    parser.add_argument("--keep", action="store_true", help="keeps the folder with its logs")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    args.old = args.old and os.path.abspath(args.old)
    defaults = (120, 40.0, 0) if args.short else (20000 if args.mixed else 2000, 100.0, 3000)
    args.jobs = args.jobs or defaults[0]
    args.rate = args.rate or defaults[1]
    args.rescore = defaults[2] if args.rescore is None else args.rescore
    return args


def missing(args):
    lacking = [] if os.access(args.binary, os.X_OK) else [f"{args.binary} (cargo build --release)"]
    if args.measure == "roll" and not (args.old and os.access(args.old, os.X_OK)):
        lacking.append("the older binary (--old)")
    if not servers.find("postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"):
        lacking.append("Postgres (Debian: apt install postgresql)")
    if not (servers.find("redis-server") or servers.find("valkey-server")):
        lacking.append("Redis (Debian: apt install redis-server)")
    return lacking


async def main(args, place):
    """Runs the drill; Ctrl-C and SIGTERM stop it cleanly."""
    task = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await Drill(args, place).run()


if __name__ == "__main__":
    arguments = parsed()
    if lacking := missing(arguments):
        print("drill: missing: " + ", ".join(lacking))
        sys.exit(2)
    # Pauses of the garbage collector would appear as latency.
    gc.freeze()
    if arguments.short:
        cluster.PATIENCE = 45.0
    where, passed = servers.Place(arguments.keep), False
    try:
        passed = asyncio.run(main(arguments, where))
    except asyncio.CancelledError:
        print("drill: interrupted")
    finally:
        where.keep = where.keep or not passed
        where.clean()
    sys.exit(0 if passed else 1)
