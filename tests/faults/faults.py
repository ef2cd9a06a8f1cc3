"""The failures, one function each: it starts the load, injects the failure, marks its end, and restores the original state."""

import asyncio
import random
import signal
import time
import uuid

import servers
import stub
import wire
from cluster import Load, Service, session, wait_for_end

FAULTS = []


class Fault:
    def __init__(self, act, name, **more):
        self.act, self.name = act, name
        # Duration under load in seconds; the load lasts longer.
        self.lasts = more.get("lasts", 2)
        # Maximum seconds to recover; None: no limit.
        self.bound = more.get("bound", 10)
        self.short = more.get("short", False)
        self.needs = more.get("needs")
        # Whether calls with a reply must not be repeated, because no process dies.
        self.once = more.get("once", False)


def fault(name, **more):
    def register(act):
        FAULTS.append(Fault(act, name, **more))
        return act

    return register


class Run:
    def __init__(self, cluster, load, rows):
        self.cluster, self.load, self.rows = cluster, load, rows
        self.waiting = None
        self.over_at = None
        self.affected = []
        self.notes = []
        # Restores the original state after the load has ended.
        self.afterwards = None

    async def loaded(self, part=0.25):
        """Waits until this part of the load has been accepted."""
        if self.load.task is None:
            self.load.start()
        load = self.load
        await servers.until(
            lambda: done(len(load.accepted) >= part * load.jobs or load.task.done()), 20 + load.jobs / load.rate, 0.02
        )

    async def in_hand(self, worker, jobs=3):
        """Waits until that worker has calls in flight."""
        await self.loaded()
        if not await servers.until(lambda: done(self.cluster.stub.in_flight[worker.name] >= jobs), 10, 0.005):
            self.notes.append(f"{worker.name} had less than {jobs} jobs in hand")

    async def named(self, *parts, seconds=12.0):
        """Waits until `/readyz` contains all these texts; notes it otherwise."""

        async def is_named():
            try:
                _, _, ready = await self.cluster.http.request("GET", "/readyz", timeout=2.0)
                return all(part in str(ready) for part in parts)
            except wire.Gone:
                return False

        began = time.monotonic()
        if await servers.until(is_named, seconds, 0.2):
            self.notes.append(f"named by /readyz after {time.monotonic() - began:.1f} s")
        else:
            self.notes.append("NOT NAMED BY /READYZ")

    def over(self):
        """Marks the end of the failure: recovery counts from now. The jobs accepted so far are affected."""
        self.over_at = time.monotonic()
        self.affected = list(self.load.accepted)
        if self.waiting:
            self.waiting.cancel()
        self.waiting = asyncio.create_task(wait_for_end(self.rows, self.affected, self.over_at))


async def done(value):
    return value


def faketime_missing():
    """Missing requirements for skewed clocks."""
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


@fault("every worker stopped for 12 s (SIGSTOP)", lasts=16, bound=10)
async def all_asleep(c, run):
    await run.loaded()
    for worker in c.workers:
        worker.signal(signal.SIGSTOP)
    end = time.monotonic() + 12.0
    await run.named("no worker is alive")
    await servers.at(end)
    for worker in c.workers:
        worker.signal(signal.SIGCONT)
    run.over()


@fault("API killed while a request holds an Idempotency-Key", lasts=7, bound=7)
async def key_held(c, run):
    await run.loaded(0.1)
    key, path = str(uuid.uuid4()), "/api/v1/scoring/sessions/{}/score"
    path = path.format(key)
    await c.http.request("PUT", f"/api/v1/sessions/{key}", session(f"{0:016x}"))
    keyed = f"Idempotency-Key: {key}\r\n"
    waiting = asyncio.create_task(c.http.request("POST", path, timeout=20.0, headers=keyed + "Prefer: wait=20\r\n"))
    held = "select 1 from idempotency_keys where status is null and locked_until > now()"

    async def is_held():
        return bool(await c.postgres.control.rows(held))

    if not await servers.until(is_held, 5.0, 0.005):
        run.notes.append("NOTHING HELD THE KEY")
    c.api.signal(signal.SIGKILL)
    killed = time.monotonic()
    run.over()
    await asyncio.wait([waiting])
    waiting.exception()
    await c.api.restart()
    refusals = []

    async def is_taken_over():
        try:
            status, _, _ = await c.http.request("POST", path, headers=keyed)
        except wire.Gone:
            return False
        refusals.append(status)
        return status < 300

    await servers.until(is_taken_over, 30.0, 0.05)
    took = time.monotonic() - killed
    jobs = await c.postgres.control.rows(f"select count(*) from scoring_jobs where subject_id = '{key}'")
    run.notes.append(f"409 x {refusals.count(409)}, taken over {took:.1f} s after the kill, {jobs[0][0]} job")
    if took > 4.0 or jobs[0][0] != "1":
        run.notes.append("LOCKED TOO LONG, OR DONE TWICE")


@fault("a header of 100,000 columns in each of 3 files", lasts=6, bound=3, once=True)
async def wide_files(c, run):
    await run.loaded()
    text = ",".join(f"column{n}" for n in range(100_000)).encode() + b"\n1\n"
    for _ in range(3):
        began = time.monotonic()
        kind = "Content-Type: text/csv\r\n"
        status, _, _ = await c.http.request("POST", "/api/v1/batches?kind=query", text, timeout=60.0, headers=kind)
        run.notes.append(f"{status} after {time.monotonic() - began:.2f} s")
    run.over()


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


@fault("Redis forbids scripts for 15 s (ACL)", lasts=18, bound=3, once=True)
async def redis_forbids(c, run):
    await run.loaded()
    before = [c.place.warnings(worker.name) for worker in c.workers]
    await c.redis.ask("acl", "setuser", "default", "-eval", "-evalsha", "-script")
    end = time.monotonic() + 15.0
    await run.named("NoPerm", "ACL SETUSER")
    await servers.at(end)
    lines = [c.place.warnings(worker.name) - count for worker, count in zip(c.workers, before)]
    run.notes.append(f"warnings of each worker: {', '.join(map(str, lines))}")
    await c.redis.ask("acl", "setuser", "default", "+@all")
    run.over()


@fault("another installation with a dead judge on the same Redis for 15 s", lasts=18, bound=3, once=True)
async def redis_shared(c, run):
    judge, port = stub.Stub(servers.free_port(), 1), servers.free_port()
    await judge.start()
    judge.say("503")
    await c.postgres.control.rows("create database other owner gavel")
    env = {"DATABASE_URL": c.postgres.url.removesuffix("postgres") + "other", "GAVEL_BIND": f"127.0.0.1:{port}"}
    env["GAVEL_LLM_PROVIDERS"] = c.judges("other.yaml", judge.port)
    c.migrate(c.binary, env)
    others = [Service(c, "other-serve", ["serve"], env), Service(c, "other-worker", ["worker"], env)]
    for other in others:
        other.start()
    http = wire.Http(port)
    await servers.until(lambda: answers(http), 30)
    theirs = Load(http, 150, 10.0, c.chance)
    theirs.start()
    await run.loaded(0.1)
    await servers.at(time.monotonic() + 15.0)
    run.over()
    run.notes.append(f"the other judge got {len(judge.calls)} calls")
    pick_up(run)
    theirs.give_up = 0.0
    await theirs.task
    for other in others:
        await other.end()
    await judge.close_port()


async def answers(http):
    try:
        status, _, _ = await http.request("GET", "/livez")
        return status == 200
    except wire.Gone:
        return False


def pick_up(run):
    """Notes the time from POST to the judge's call."""
    stub, load = run.cluster.stub, run.load
    waits = sorted(stub.first_call[load.sessions[key]] - at for key, at in load.posted_at.items() if load.sessions[key] in stub.first_call)
    if waits:
        run.notes.append(f"POST to call p50 {waits[len(waits) // 2] * 1000:.0f} ms, p99 {waits[len(waits) * 99 // 100] * 1000:.0f} ms")


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
    """Sessions that start during the failure keep the setting until they are closed, like sessions on a demoted primary."""
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
    # Resetting such a setting also ends the sessions that still have it.
    await c.postgres.cut_role()
    run.over()


@fault("4 connections of Postgres left for 4 processes, 20 s", lasts=22, bound=10, short=True)
async def postgres_scarce(c, run):
    """Another application uses all but four of the slots, so that each process has to work with one connection."""
    await run.loaded()
    rows, others = c.postgres.control.rows, []
    last = "select count(*) from pg_stat_activity where backend_type = 'client backend' and application_name <> 'gavel'"
    try:
        # Gavel's connections end and reopen until the other application has its slots.
        while int((await rows(last))[0][0]) < c.postgres.slots - 4:
            other = wire.Postgres(c.postgres.port, "drill")
            try:
                await other.rows("select 1")
                others.append(other)
            except wire.Gone:
                await c.postgres.cut_role()
        await asyncio.sleep(16.0)
        silent = await rows("select count(*) from workers where state = 'running' and not declared_dead and heartbeat_at < now() - interval '5 s'")
        if silent != [["0"]]:
            run.notes.append(f"{silent[0][0]} WORKERS WITHOUT A HEARTBEAT: PROBES")
        _, _, ready = await c.http.request("GET", "/readyz")
        if "no free connection" not in str(ready.get("reasons")):
            run.notes.append(f"NOTHING IN /readyz: {ready.get('reasons')}")
    finally:
        for other in others:
            other.close()
    run.over()


@fault("queued rows locked for 72 s", lasts=10, bound=10)
async def rows_locked(c, run):
    # A pause, so that there is a queue and every slot is free: the lock then meets claims and returned jobs.
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


# A database that rejects the role. Results wait, and no call with a reply is repeated.


async def refused(c, run, refuse, accept, *named):
    """Rejects the role gavel for 15 s."""
    await run.in_hand(c.workers[0])
    await refuse()
    end = time.monotonic() + 15.0
    await c.postgres.cut_role()
    await run.named(*named)
    await servers.at(end)
    await accept()
    run.over()


@fault("password rotated for 15 s", lasts=18, bound=3, once=True)
async def password_rotated(c, run):
    await c.postgres.admit("127.0.0.1/32 scram-sha-256")

    async def write():
        c.password("second")

    async def afterwards():
        await c.postgres.password("first")
        c.password("first")
        await c.postgres.admit()

    run.afterwards = afterwards
    await refused(c, run, lambda: c.postgres.password("second"), write, "28P01", "password_file")


@fault("role without login for 15 s", lasts=18, bound=3, once=True)
async def role_without_login(c, run):
    rows = c.postgres.control.rows
    await refused(c, run, lambda: rows("alter role gavel nologin"), lambda: rows("alter role gavel login"), "28000", "login")


@fault("role rejected by pg_hba.conf for 15 s", lasts=18, bound=3, once=True)
async def role_rejected(c, run):
    admit = c.postgres.admit
    await refused(c, run, lambda: admit("127.0.0.1/32 reject"), admit, "28000", "pg_hba")


@fault("database that allows no connections for 15 s", lasts=18, bound=3, once=True)
async def database_closed(c, run):
    other = wire.Postgres(c.postgres.port, "drill", "template1")
    allow = "alter database postgres allow_connections"
    await refused(c, run, lambda: other.rows(f"{allow} false"), lambda: other.rows(f"{allow} true"), "55000", "allow_connections")
    other.close()


@fault("grants missing for 15 s", lasts=18, bound=3, once=True)
async def grants_missing(c, run):
    rows, of = c.postgres.control.rows, "insert, update on scoring_jobs, session_scores, judge_calls"
    await refused(c, run, lambda: rows(f"revoke {of} from gavel"), lambda: rows(f"grant {of} to gavel"), "grant insert")


@fault("table scoring_jobs locked for 15 s", lasts=18, bound=10, once=True)
async def table_locked(c, run):
    locker = wire.Postgres(c.postgres.port, "drill")
    await run.loaded()
    await locker.rows("begin; lock table scoring_jobs in access exclusive mode", timeout=30)
    end = time.monotonic() + 15.0
    await run.named("scoring_jobs", "pg_terminate_backend")
    await servers.at(end)
    await locker.rows("rollback")
    locker.close()
    run.over()
    took = [end - begin for begin, end, what in run.load.refused if what.startswith("503")]
    run.notes.append(f"{len(took)} x 503, after {max(took, default=0.0):.1f} s at most")


# Clocks.


async def skewed(service, offset, run):
    await service.restart(servers.clock(offset))
    await run.cluster.is_live()
    run.afterwards = service.restart
    await run.loaded(0.0)
    await run.load.task
    run.over()
    pick_up(run)


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


async def steppable_clock(c, run):
    """Restarts the database with a clock that the returned function shifts, until the failure is over."""
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

    async def afterwards():
        await c.postgres.stop(signal.SIGINT)
        await c.postgres.again()

    run.afterwards = afterwards
    return step


@fault("the database's clock steps +1 h and back", lasts=14, needs=faketime_missing)
async def database_steps(c, run):
    step = await steppable_clock(c, run)
    step("+3600s")
    seen = await c.postgres.control.rows("select extract(epoch from clock_timestamp())")
    if abs(float(seen[0][0]) - time.time() - 3600) > 60:
        run.notes.append("THE CLOCK DIDN'T STEP")
    await asyncio.sleep(5.0)
    step("+0s")
    await asyncio.sleep(5.0)
    run.over()


@fault("the database's clock leaps 100 days ahead while every worker starts", lasts=20, needs=faketime_missing)
async def database_leaps(c, run):
    async def history():
        counts = await c.postgres.control.rows("select count(*) from alert_sessions union all select count(*) from judge_calls")
        return [int(count) for count, in counts]

    step = await steppable_clock(c, run)
    before = await history()
    step("+8640000s")
    for worker in c.workers:
        await worker.restart()
    await c.is_live()
    await run.named("the database's clock is")

    async def has_refused():
        return any("retention deletes no rows" in c.place.log(worker.name) for worker in c.workers)

    if not await servers.until(has_refused, 20.0):
        run.notes.append("NO WORKER REFUSED TO DELETE")
    after = await history()
    run.notes.append(f"sessions and calls {before} -> {after}")
    if any(now < then for now, then in zip(after, before)):
        run.notes.append("HISTORY WAS DELETED")
    step("+0s")
    run.over()


# The judge. A breaker stays open for 30 s, so work resumes at most that long after recovery.


async def judge_says(c, run, mode, seconds):
    await run.loaded()
    began = time.monotonic()
    c.stub.say(mode)
    await asyncio.sleep(seconds)
    c.stub.say("good")
    run.over()
    return began


def probes(times, began, seconds, cooldown=30.0):
    """Calls later than 10 s after the start, when the breaker must be open: their number, and the maximum within one cool-down."""
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
    # Keep-alive connections end with their process.
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




class Storm:
    """Random failures, each a few seconds long; a component that is already failing is skipped."""

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
        """Starts a random failure; None if every component is failing."""
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
        # Its breaker is then open for 30 s. More than one failure a minute would leave no calls for the others.
        try:
            await asyncio.wait_for(self.ended.wait(), 60.0)
        except asyncio.TimeoutError:
            pass

    async def judge_fails(self):
        await self.judge_is("503")

    async def judge_hangs(self):
        await self.judge_is("hang")
