"""The faults: one function each. It brings the load up, does its harm, says when that is over, and leaves nothing behind."""

import asyncio
import random
import signal
import time

import servers
import wire
from cluster import wait_for_end

FAULTS = []


class Fault:
    """A fault, and what it must come to."""

    def __init__(self, act, name, **more):
        self.act, self.name = act, name
        # How long it lasts under load, seconds; the load lasts longer.
        self.lasts = more.get("lasts", 2)
        # Bound of seconds to recover; None: none is promised.
        self.bound = more.get("bound", 10)
        self.short = more.get("short", False)
        self.needs = more.get("needs")
        # Whether jobs may fail by it, with a class.


def fault(name, **more):
    """Registers a fault."""

    def register(act):
        FAULTS.append(Fault(act, name, **more))
        return act

    return register


class Run:
    """One fault under load."""

    def __init__(self, cluster, load, rows):
        self.cluster, self.load, self.rows = cluster, load, rows
        self.waiting = None
        self.over_at = None
        self.affected = []
        self.notes = []
        # What puts everything back when the load has ended.
        self.afterwards = None

    async def loaded(self, part=0.25):
        """Waits until so much of the load has been accepted."""
        if self.load.task is None:
            self.load.start()
        load = self.load
        await servers.until(
            lambda: done(len(load.accepted) >= part * load.jobs or load.task.done()), 20 + load.jobs / load.rate, 0.02
        )

    async def in_hand(self, worker, jobs=3):
        """Waits until the judge is being asked by that worker."""
        await self.loaded()
        if not await servers.until(lambda: done(self.cluster.stub.in_flight[worker.name] >= jobs), 10, 0.005):
            self.notes.append(f"{worker.name} had less than {jobs} jobs in hand")

    def over(self):
        """From now on everything could be well again: what was accepted by now is what the fault met."""
        self.over_at = time.monotonic()
        self.affected = list(self.load.accepted)
        if self.waiting:
            self.waiting.cancel()
        self.waiting = asyncio.create_task(wait_for_end(self.rows, self.affected, self.over_at))


async def done(value):
    """A value as something to wait for."""
    return value


def faketime_missing():
    """What is missing for skewed clocks."""
    return "" if servers.faketime() else "libfaketime (Debian: apt install faketime)"


# Workers and the API.


@fault("worker killed", bound=7, short=True)
async def worker_killed(c, run):
    await run.in_hand(c.workers[0])
    await c.workers[0].end()
    run.over()


@fault("all workers killed", bound=10)
async def all_killed(c, run):
    await run.in_hand(c.workers[0])
    for worker in c.workers:
        worker.signal(signal.SIGKILL)
    run.over()
    for worker in c.workers:
        await worker.restart()


@fault("worker killed every 2 s for 60 s", lasts=60, bound=10)
async def killed_again_and_again(c, run):
    await run.loaded(0.05)
    for number in range(30):
        worker = c.workers[number % len(c.workers)]
        await worker.restart()
        await asyncio.sleep(2.0)
    run.over()


@fault("worker told to stop", bound=7)
async def worker_stopped(c, run):
    await run.in_hand(c.workers[0])
    run.over()
    run.notes.append(f"ended after {await c.workers[0].end(signal.SIGTERM):.1f} s")


@fault("worker stopped for 8 s (SIGSTOP)", lasts=10, bound=7)
async def worker_asleep(c, run):
    await run.in_hand(c.workers[0])
    c.workers[0].signal(signal.SIGSTOP)
    run.over()
    await asyncio.sleep(6.0)
    found = await c.postgres.control.rows(
        "select count(*) from pg_stat_activity where usename = 'gavel' and state like 'idle in transaction%' "
        "and state_change < now() - interval '5 s'"
    )
    if found[0][0] != "0":
        run.notes.append(f"it held {found[0][0]} transactions open")
    await asyncio.sleep(2.0)
    c.workers[0].signal(signal.SIGCONT)


@fault("API killed under POSTs", lasts=7, bound=7, short=True)
async def api_killed(c, run):
    await run.loaded(0.1)
    for _ in range(3):
        c.api.signal(signal.SIGKILL)
        run.over()
        await c.api.restart()
        await asyncio.sleep(2.0)


# Redis.


@fault("Redis killed, empty again after 3 s", lasts=6, bound=3, short=True)
async def redis_killed(c, run):
    await run.loaded()
    c.redis.kill()
    await asyncio.sleep(3.0)
    await c.redis.again()
    run.over()


@fault("Redis stalled for 8 s", lasts=10, bound=3)
async def redis_stalled(c, run):
    await run.loaded()
    c.redis.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(8.0)
    c.redis.process.send_signal(signal.SIGCONT)
    run.over()


@fault("Redis out of memory for 8 s (noeviction)", lasts=10, bound=3)
async def redis_full(c, run):
    await run.loaded()
    await c.redis.ask("config", "set", "maxmemory-policy", "noeviction")
    await c.redis.ask("config", "set", "maxmemory", "1")
    await asyncio.sleep(8.0)
    await c.redis.ask("config", "set", "maxmemory", "0")
    run.over()


@fault("Redis evicting for 8 s (allkeys-lru)", lasts=10, bound=3)
async def redis_evicting(c, run):
    await run.loaded()
    used = await c.redis.ask("info", "memory")
    used = int(next(line for line in used.splitlines() if line.startswith("used_memory:")).split(":")[1])
    await c.redis.ask("config", "set", "maxmemory-policy", "allkeys-lru")
    await c.redis.ask("config", "set", "maxmemory", used + 200_000)
    end, number = time.monotonic() + 8.0, 0
    while time.monotonic() < end:
        number += 1
        try:
            await c.redis.ask("set", f"filler:{number}", "x" * 20_000)
        except wire.Gone:
            pass
        await asyncio.sleep(0.02)
    await c.redis.ask("config", "set", "maxmemory", "0")
    await c.redis.ask("config", "set", "maxmemory-policy", "noeviction")
    run.over()


@fault("FLUSHALL five times", lasts=6, bound=3)
async def redis_flushed(c, run):
    await run.loaded()
    for _ in range(5):
        await c.redis.ask("flushall")
        run.over()
        await asyncio.sleep(1.0)


# Postgres.


async def restarted(c, run, number):
    await run.loaded()
    await c.postgres.stop(number)
    await c.postgres.again()
    run.over()


@fault("Postgres restarted (fast)", lasts=4, bound=3)
async def postgres_fast(c, run):
    await restarted(c, run, signal.SIGINT)


@fault("Postgres restarted (immediate)", lasts=4, bound=3, short=True)
async def postgres_immediate(c, run):
    await restarted(c, run, signal.SIGQUIT)


@fault("Postgres stalled for 8 s (SIGSTOP)", lasts=10, bound=3)
async def postgres_asleep(c, run):
    await run.loaded()
    c.postgres.control.close()
    servers.signal_tree(c.postgres.process.pid, signal.SIGSTOP)
    await asyncio.sleep(8.0)
    servers.signal_tree(c.postgres.process.pid, signal.SIGCONT)
    run.over()


@fault("Postgres stalled for 8 s (proxy)", lasts=10, bound=3)
async def postgres_stalled(c, run):
    await run.loaded()
    c.postgres.tell_proxy("stall")
    await asyncio.sleep(8.0)
    c.postgres.tell_proxy("pass")
    run.over()


@fault("connections to Postgres frozen", lasts=11, bound=10, short=True)
async def postgres_frozen(c, run):
    await run.loaded()
    c.postgres.tell_proxy("freeze")
    run.over()


@fault("connections to Postgres cut every second", lasts=12, bound=3)
async def postgres_cut(c, run):
    await run.loaded(0.1)
    for _ in range(10):
        c.postgres.tell_proxy("cut")
        run.over()
        await asyncio.sleep(1.0)


@fault("Postgres read-only for 8 s (alter system)", lasts=12, bound=10)
async def postgres_read_only(c, run):
    await run.loaded()
    await c.postgres.control.rows("alter system set default_transaction_read_only = on")
    await c.postgres.control.rows("select pg_reload_conf()")
    await asyncio.sleep(8.0)
    await c.postgres.control.rows("alter system reset default_transaction_read_only")
    await c.postgres.control.rows("select pg_reload_conf()")
    run.over()


async def role_set(c, run, setting, value, seconds):
    """Sessions that begin meanwhile keep the setting until they are closed, as those to a demoted primary do."""
    await run.loaded()
    await c.postgres.control.rows(f"alter role gavel set {setting} = '{value}'")
    await c.postgres.cut_role()
    await asyncio.sleep(seconds)
    await c.postgres.control.rows(f"alter role gavel reset {setting}")
    run.over()


@fault("sessions that stay read-only (demoted primary)", lasts=10, bound=10, short=True)
async def postgres_demoted(c, run):
    await role_set(c, run, "default_transaction_read_only", "on", 4.0)


@fault("statement_timeout of 5 ms for 8 s", lasts=12, bound=10)
async def postgres_hasty(c, run):
    await role_set(c, run, "statement_timeout", "5ms", 8.0)
    # Whoever takes such a setting back ends the sessions that still have it.
    await c.postgres.cut_role()
    run.over()


@fault("4 connections of Postgres left for 4 processes, 20 s", lasts=22, bound=10, short=True)
async def postgres_scarce(c, run):
    """Another application has all but four of the slots, so that each process has to work with one connection."""
    await run.loaded()
    rows, others = c.postgres.control.rows, []
    last = "select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name <> 'gavel'"
    try:
        # Gavel's connections end and come back meanwhile, until the others have theirs.
        while int((await rows(last))[0][0]) < c.postgres.slots - 4:
            other = wire.Postgres(c.postgres.port, "drill")
            try:
                await other.rows("select 1")
                others.append(other)
            except wire.Gone:
                await c.postgres.cut_role()
        await asyncio.sleep(16.0)
        silent = await rows("select count(*) from workers where state = 'running' and heartbeat_at < now() - interval '5 s'")
        if silent != [["0"]]:
            run.notes.append(f"{silent[0][0]} WORKERS WITHOUT A HEARTBEAT: PROBES")
        _, _, ready = await c.http.request("GET", "/readyz")
        if "no connection left" not in str(ready.get("reasons")):
            run.notes.append(f"NOTHING IN /readyz: {ready.get('reasons')}")
    finally:
        for other in others:
            other.close()
    run.over()


@fault("queued rows locked for 72 s", lasts=10, bound=10)
async def rows_locked(c, run):
    # A pause, so that there is a queue and every slot is free: claims are what the lock meets, and those that are given up.
    await c.http.request("POST", "/api/v1/judges/judge/pause")
    locker = wire.Postgres(c.postgres.port, "drill")
    try:
        await run.loaded(0.3)
        await locker.rows("begin; select job_id from scoring_jobs where finished_at is null for update", timeout=30)
        status, _, answer = await c.http.request("POST", "/api/v1/judges/judge/resume", timeout=30)
        if status != 200:
            raise RuntimeError(f"resuming under the lock answered {status}: {answer}")
        await asyncio.sleep(72.0)
        await locker.rows("rollback")
    finally:
        locker.close()
    run.over()


# Clocks.


async def skewed(service, offset, run):
    """One host's clock is off for the whole of the load."""
    await service.restart(servers.clock(offset))
    await run.cluster.is_live(beats=False)
    run.afterwards = service.restart
    await run.loaded(0.0)
    await run.load.task
    run.over()
    stub, load = run.cluster.stub, run.load
    waits = sorted(stub.first_call[load.sessions[key]] - at for key, at in load.posted_at.items() if load.sessions[key] in stub.first_call)
    if waits:
        run.notes.append(f"POST to call p50 {waits[len(waits) // 2] * 1000:.0f} ms, p99 {waits[len(waits) * 99 // 100] * 1000:.0f} ms")


@fault("a worker's clock at +1 h", bound=3, needs=faketime_missing)
async def worker_ahead(c, run):
    await skewed(c.workers[0], "+3600s", run)


@fault("a worker's clock at -1 h", bound=3, needs=faketime_missing)
async def worker_behind(c, run):
    await skewed(c.workers[0], "-3600s", run)


@fault("the API's clock at -1 h", bound=3, needs=faketime_missing)
async def api_behind(c, run):
    await skewed(c.api, "-3600s", run)


@fault("the API's clock at +20 ms", bound=3, needs=faketime_missing)
async def api_ahead_a_little(c, run):
    await skewed(c.api, "+0.02s", run)


@fault("the API's clock at +6 s", bound=3, needs=faketime_missing)
async def api_ahead(c, run):
    await skewed(c.api, "+6s", run)


@fault("the database's clock steps +1 h and back", lasts=14, needs=faketime_missing)
async def database_steps(c, run):
    path = f"{c.postgres.home}/offset"

    def step(offset):
        with open(path, "w") as file:
            file.write(offset + "\n")

    step("+0s")
    await c.postgres.stop(signal.SIGINT)
    env = servers.clock("") | {"FAKETIME_TIMESTAMP_FILE": path, "FAKETIME_NO_CACHE": "1"}
    del env["FAKETIME"]
    await c.postgres.again(env)
    await c.is_live()
    await run.loaded()
    step("+3600s")
    seen = await c.postgres.control.rows("select extract(epoch from clock_timestamp())")
    if abs(float(seen[0][0]) - time.time() - 3600) > 60:
        run.notes.append("THE CLOCK DIDN'T STEP")
    await asyncio.sleep(5.0)
    step("+0s")
    await asyncio.sleep(5.0)
    run.over()

    async def afterwards():
        await c.postgres.stop(signal.SIGINT)
        await c.postgres.again()

    run.afterwards = afterwards


# The judge. A breaker stays open for 30 s, so that work goes on at most so long after it is well.


async def judge_says(c, run, mode, seconds):
    await run.loaded()
    began = time.monotonic()
    c.stub.say(mode)
    await asyncio.sleep(seconds)
    c.stub.say("good")
    run.over()
    return began


def probes(times, began, seconds, cooldown=30.0):
    """Calls after the breaker had 10 s to open: how many, and the most within one cool-down."""
    late = sorted(at for at in times if began + 10.0 < at < began + seconds)
    most = max((sum(1 for at in late if first <= at < first + cooldown - 1.0) for first in late), default=0)
    return len(late), most


@fault("judge answers 503 for 60 s", lasts=66, bound=40)
async def judge_dead(c, run):
    began = await judge_says(c, run, "503", 60.0)
    count, most = probes([at for at, _, _, mode in c.stub.calls if mode == "503"], began, 60.0)
    run.notes.append(f"{count} probes, at most {most} in a cool-down")
    if most > 1:
        run.notes.append("PROBES > 1 PER COOL-DOWN")


@fault("judge resets connections for 60 s", lasts=66, bound=40)
async def judge_resets(c, run):
    c.stub.resets.clear()
    began = await judge_says(c, run, "reset", 60.0)
    times = c.stub.resets + [at for at, _, _, mode in c.stub.calls if mode == "reset"]
    count, most = probes(times, began, 60.0)
    run.notes.append(f"{count} probes, at most {most} in a cool-down")
    if most > 1:
        run.notes.append("PROBES > 1 PER COOL-DOWN")


@fault("judge's port closed for 20 s", lasts=24, bound=40)
async def judge_closed(c, run):
    await run.loaded()
    await c.stub.close_port()
    # Connections that are kept alive die with the process that had them.
    c.stub.say("reset")
    await asyncio.sleep(20.0)
    c.stub.say("good")
    await c.stub.start()
    run.over()


@fault("judge hangs for 20 s", lasts=24, bound=40)
async def judge_hangs(c, run):
    await judge_says(c, run, "hang", 20.0)


@fault("judge answers a byte a second for 20 s", lasts=24, bound=40)
async def judge_drips(c, run):
    await judge_says(c, run, "drip", 20.0)


@fault("judge answers 200 with HTML for 20 s", lasts=24, bound=40)
async def judge_html(c, run):
    await judge_says(c, run, "html", 20.0)


@fault("judge answers 50 MB for 20 s", lasts=24, bound=40)
async def judge_large(c, run):
    await judge_says(c, run, "large", 20.0)


# A few of them one after another, at random.


class Storm:
    """Random faults, each within a few seconds; what is broken already isn't broken again."""

    def __init__(self, cluster, seed):
        self.c, self.chance = cluster, random.Random(seed)
        self.busy = set()
        self.tasks = set()
        self.ended = asyncio.Event()
        self.count = {}
        self.kinds = {
            "worker killed": ("worker", self.kill_worker),
            "worker told to stop": ("worker", self.stop_worker),
            "worker asleep 7 s": ("worker", self.freeze_worker),
            "all workers killed": ("all", self.kill_all),
            "API killed": ("api", self.kill_api),
            "Redis killed": ("redis", self.kill_redis),
            "Redis stalled 3 s": ("redis", self.stall_redis),
            "Redis full 3 s": ("redis", self.fill_redis),
            "FLUSHALL": ("redis", self.flush_redis),
            "Postgres restarted": ("postgres", self.restart_postgres),
            "Postgres stalled 3 s": ("postgres", self.stall_postgres),
            "connections frozen": ("postgres", self.freeze_postgres),
            "connections cut": ("postgres", self.cut_postgres),
            "read-only sessions 3 s": ("postgres", self.demote_postgres),
            "statement_timeout 5 ms 3 s": ("postgres", self.hurry_postgres),
            "judge 503 3 s": ("judge", self.judge_fails),
            "judge hangs 3 s": ("judge", self.judge_hangs),
        }

    def strike(self):
        """Begins a random fault; None when everything is broken already."""
        free = [name for name, (what, _) in self.kinds.items() if what not in self.busy]
        if "all" in self.busy:
            free = [name for name in free if self.kinds[name][0] != "worker"]
        if "worker" in self.busy:
            free = [name for name in free if self.kinds[name][0] != "all"]
        if not free:
            return None
        name = self.chance.choice(free)
        what, act = self.kinds[name]
        self.busy.add(what)
        self.count[name] = self.count.get(name, 0) + 1
        task = asyncio.create_task(self.wrapped(what, act))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return name

    async def wrapped(self, what, act):
        try:
            await act()
        except wire.Gone as error:
            print(f"    a fault met another: {str(error)[:120]}", flush=True)
        finally:
            self.busy.discard(what)

    async def end(self):
        """Waits for the faults that are under way."""
        self.ended.set()
        while self.tasks:
            await asyncio.wait(set(self.tasks), timeout=90)

    async def kill_worker(self):
        await self.chance.choice(self.c.workers).restart()
        await asyncio.sleep(1.0)

    async def stop_worker(self):
        worker = self.chance.choice(self.c.workers)
        await worker.end(signal.SIGTERM)
        worker.start()

    async def freeze_worker(self):
        worker = self.chance.choice(self.c.workers)
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(7.0)
        worker.signal(signal.SIGCONT)

    async def kill_all(self):
        for worker in self.c.workers:
            await worker.restart()
        await asyncio.sleep(6.0)

    async def kill_api(self):
        await self.c.api.restart()
        await asyncio.sleep(2.0)

    async def kill_redis(self):
        self.c.redis.kill()
        await asyncio.sleep(1.0)
        await self.c.redis.again()

    async def stall_redis(self):
        self.c.redis.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3.0)
        self.c.redis.process.send_signal(signal.SIGCONT)

    async def fill_redis(self):
        await self.c.redis.ask("config", "set", "maxmemory", "1")
        await asyncio.sleep(3.0)
        await self.c.redis.ask("config", "set", "maxmemory", "0")

    async def flush_redis(self):
        await self.c.redis.ask("flushall")

    async def restart_postgres(self):
        await self.c.postgres.stop(self.chance.choice([signal.SIGINT, signal.SIGQUIT]))
        await self.c.postgres.again()

    async def stall_postgres(self):
        self.c.postgres.tell_proxy("stall")
        await asyncio.sleep(3.0)
        self.c.postgres.tell_proxy("pass")

    async def freeze_postgres(self):
        self.c.postgres.tell_proxy("freeze")

    async def cut_postgres(self):
        self.c.postgres.tell_proxy("cut")

    async def role(self, setting, value):
        await self.c.postgres.control.rows(f"alter role gavel set {setting} = '{value}'")
        try:
            await self.c.postgres.cut_role()
            await asyncio.sleep(3.0)
        finally:
            await self.c.postgres.control.rows(f"alter role gavel reset {setting}")

    async def demote_postgres(self):
        await self.role("default_transaction_read_only", "on")

    async def hurry_postgres(self):
        await self.role("statement_timeout", "5ms")
        await self.c.postgres.cut_role()

    async def judge_is(self, mode):
        self.c.stub.say(mode)
        await asyncio.sleep(3.0)
        self.c.stub.say("good")
        # Its breaker is open for 30 s then: more often than once a minute, and nothing else would be tried.
        try:
            await asyncio.wait_for(self.ended.wait(), 60.0)
        except asyncio.TimeoutError:
            pass

    async def judge_fails(self):
        await self.judge_is("503")

    async def judge_hangs(self):
        await self.judge_is("hang")
