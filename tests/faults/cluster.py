"""The tested cluster: one API, three workers, a load, and a record of the accepted requests.

The drill itself records the sessions sent and the jobs accepted with 202. It reads their outcome from
the database with its own SQL.
"""

import asyncio
import collections
import os
import random
import signal
import subprocess
import time
import uuid

import servers
import stub
import wire

# Above every recovery bound: a slower job counts as lost.
PATIENCE = 90.0


class Service:
    def __init__(self, cluster, name, command, env):
        self.cluster, self.name, self.command, self.env = cluster, name, command, env
        self.process = None

    def start(self, more=None, binary=None):
        env = self.cluster.env | self.env | {"DRILL_NAME": self.name} | (more or {})
        command = [binary or self.cluster.binary, *self.command]
        self.process = self.cluster.place.start(self.name, command, env=env)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    async def end(self, number=signal.SIGKILL, patience=60):
        """Stops it by a signal and returns the duration in seconds."""
        began = time.monotonic()
        if self.runs():
            self.process.send_signal(number)
        try:
            await asyncio.to_thread(self.process.wait, patience)
        except subprocess.TimeoutExpired:
            print(f"    {self.name} doesn't end within {patience} s after signal {number}: killed", flush=True)
            self.process.kill()
            await asyncio.to_thread(self.process.wait)
        self.cluster.place.forget(self.process)
        return time.monotonic() - began

    async def restart(self, more=None):
        await self.end()
        self.start(more)

    def signal(self, number):
        if self.runs():
            self.process.send_signal(number)


class Cluster:
    def __init__(self, place, binary, seed, judge_lines=(), workers=3):
        self.place, self.binary = place, binary
        self.chance = random.Random(seed)
        self.postgres = servers.PostgresServer(place)
        self.redis = servers.RedisServer(place)
        self.stub = stub.Stub(servers.free_port(), seed)
        self.port = servers.free_port()
        self.http = wire.Http(self.port)
        self.judge_lines = judge_lines
        self.password_file = os.path.join(place.folder, "password")
        self.env = {}
        self.api = Service(self, "serve", ["serve"], {"GAVEL_BIND": f"127.0.0.1:{self.port}"})
        self.workers = [Service(self, f"worker-{n + 1}", ["worker"], {}) for n in range(workers)]

    def judges(self, name, port):
        lines = [
            "judge:",
            "  type: openai",
            f"  base_url: http://127.0.0.1:{port}/v1",
            "  auth: none",
            "  model: judge-1",
            "  headers: { x-drill: \"${DRILL_NAME:-}\" }",
            # The default for sessions is 180 s, which would slow the drill if a judge hangs.
            "  timeout_s: 10",
            *[f"  {line}" for line in self.judge_lines],
        ]
        path = os.path.join(self.place.folder, name)
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def password(self, text):
        with open(self.password_file, "w") as file:
            file.write(text + "\n")

    def settings(self, more=None):
        """The environment of every process, and the providers file."""
        self.password("first")
        self.env = {
            "DATABASE_URL": self.postgres.url,
            "GAVEL_DATABASE_PASSWORD_FILE": self.password_file,
            "REDIS_URL": self.redis.url,
            "GAVEL_LLM_PROVIDERS": self.judges("judges.yaml", self.stub.port),
            "DEFAULT_LLM_PROVIDER": "judge",
        } | (more or {})

    async def start(self, more=None):
        await self.postgres.make()
        await self.redis.again()
        await self.stub.start()
        self.settings(more)
        self.migrate(self.binary)
        self.api.start()
        for worker in self.workers:
            worker.start()
        await self.is_live()

    def migrate(self, binary, more=None):
        done = self.place.start("migrate", [binary, "migrate"], env=self.env | (more or {}))
        if done.wait(120):
            raise RuntimeError("gavel migrate failed: see migrate.log")
        self.place.forget(done)

    async def is_live(self):
        """Waits until the API is ready and each worker's heartbeat has changed, at any clock."""
        seen = {}

        async def live():
            try:
                status, _, _ = await self.http.request("GET", "/livez")
                beats = await self.postgres.control.rows("select worker_id, heartbeat_at from workers where state = 'running'")
            except wire.Gone:
                return False
            moved = [worker for worker, beat in beats if seen.setdefault(worker, beat) != beat]
            return status == 200 and len(moved) >= len([w for w in self.workers if w.runs()])

        if not await servers.until(live, 60):
            raise RuntimeError("the API or its workers don't come up: see serve.log and worker-*.log")

    async def heal(self):
        self.postgres.tell_proxy("pass")
        self.stub.say("good")
        if self.stub.server is None:
            await self.stub.start()
        for service in [self.api, *self.workers]:
            if not service.runs():
                service.start()
        await self.is_live()

    async def reset(self):
        """Kills and restarts every process of gavel, because a failure left them in a permanent state."""
        for service in [self.api, *self.workers]:
            service.signal(signal.SIGCONT)
            await service.end()
        await self.redis.ask("flushall")
        await self.postgres.control.rows("delete from judges")
        for service in [self.api, *self.workers]:
            service.start()
        await self.is_live()


def session(mark):
    return {
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "agent": "kubernetes",
        "alert_data": {"namespace": "shop", "pod": f"drill-{mark}"},
        "conversation": [
            {"role": "user", "content": f"Pod drill-{mark} restarts again and again."},
            {"role": "tool", "tool_name": "kubectl", "content": "Last State: Terminated, Reason: OOMKilled"},
            {"role": "assistant", "content": "Killed for memory: limit 256Mi, working set 255Mi."},
        ],
        "final_analysis": "OOMKilled; raise the memory limit.",
    }


class Load:
    """Puts sessions and requests their scores at a constant rate, and records the responses.

    A client retries until it gets its 202; each failed attempt is recorded with its time.
"""

    def __init__(self, http, jobs, rate, chance):
        self.http, self.jobs, self.rate = http, jobs, rate
        # session id -> mark; job id -> (session id, time of the 202)
        self.sessions = {}
        self.accepted = {}
        # Sessions with a score in the response to their POST, because an earlier attempt with a lost response had created the job.
        self.scored = set()
        self.posted_at = {}
        # (start, end, error) of each failed attempt
        self.refused = []
        self.given_up = 0
        self.give_up = 0.0
        # (start, end) of each successful PUT and POST
        self.served = []
        self.chance = chance
        self.slots = asyncio.Semaphore(64)
        self.task = None

    def start(self):
        self.task = asyncio.create_task(self.run())

    async def run(self):
        begin, tasks = time.monotonic(), set()
        self.give_up = begin + self.jobs / self.rate + PATIENCE
        for number in range(self.jobs):
            await servers.at(begin + number / self.rate)
            await self.slots.acquire()
            task = asyncio.create_task(self.one())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        if tasks:
            await asyncio.wait(tasks)

    async def one(self):
        try:
            key, mark = str(uuid.UUID(int=self.chance.getrandbits(128), version=4)), f"{self.chance.getrandbits(64):016x}"
            self.sessions[key] = mark
            if await self.insist("PUT", f"/api/v1/sessions/{key}", session(mark)) is None:
                return
            answer = await self.insist("POST", f"/api/v1/scoring/sessions/{key}/score", None, key)
            if answer and "job_id" in answer:
                self.accepted[answer["job_id"]] = (key, time.monotonic())
            elif answer:
                self.scored.add(key)
        finally:
            self.slots.release()

    async def insist(self, method, path, body, key=None):
        """Retries until success and returns None on failure. All clients share one deadline, so that a load ends."""
        answers = []

        async def is_done():
            began = time.monotonic()
            try:
                status, _, answer = await self.http.request(method, path, body)
                if status < 300:
                    self.served.append((began, time.monotonic()))
                    if key:
                        self.posted_at[key] = began
                    answers.append(answer)
                    return True
                kind = str(answer.get("type", "")).rsplit(":", 1)[-1] if isinstance(answer, dict) else ""
                what = f"{status} {kind}"
            except wire.Gone as error:
                what = str(error)
            self.refused.append((began, time.monotonic(), what))
            return False

        if await servers.until(is_done, self.give_up - time.monotonic(), 0.2):
            return answers[0]
        self.given_up += 1
        return None

    def served_again(self, since):
        """Seconds until the last failed attempt that started later had failed; 0 without one."""
        late = [end for begin, end, _ in self.refused if begin >= since]
        return max(late, default=since) - since

    def refusals(self):
        """Failed attempts by error, as text."""
        return collections.Counter(what for _, _, what in self.refused)


SQL_OPEN = "select job_id from scoring_jobs where finished_at is null"


async def wait_for_end(rows, jobs, since, patience=None):
    """Waits until these jobs have ended. Returns the seconds from `since`, and the jobs that didn't end."""
    left, seen_at = set(jobs), [time.monotonic()]

    async def have_ended():
        if left:
            try:
                left.intersection_update(row[0] for row in await rows(SQL_OPEN))
                seen_at[0] = time.monotonic()
            except wire.Gone:
                pass
        return not left

    await servers.until(have_ended, patience or PATIENCE, 0.1 if len(left) < 500 else 0.3)
    return max(0.0, seen_at[0] - since), left


class Verdict:
    def __init__(self):
        self.jobs = self.lost = self.twice = self.superseded = 0
        self.failed = collections.Counter()
        self.notes = []


def quoted(ids):
    """Ids as an SQL list; an empty list becomes an id that doesn't exist."""
    return ",".join(f"'{each}'" for each in ids) or "'00000000-0000-0000-0000-000000000000'"


async def verdict(rows, load, everything=False):
    """Counts lost and duplicate scores. `everything`: of all rows rather than of the load's sessions."""
    found, keys = Verdict(), list(load.sessions)
    jobs, scores = {}, []
    step = len(keys) + 1 if everything else 1000
    for at in range(0, len(keys), step):
        part = quoted(keys[at : at + step])
        of_subject, of_session = ("", "") if everything else (f"where subject_id in ({part})", f"where session_id in ({part})")
        for job, state, fault, subject in await rows(
            f"select job_id, state, error_class, subject_id from scoring_jobs {of_subject}"
        ):
            jobs[job] = (state, fault, subject)
        scores += await rows(f"select session_id, job_id, superseded_at from session_scores {of_session}")
    by_job = collections.Counter(job for _, job, _ in scores)
    by_session = collections.Counter(key for key, _, _ in scores)
    found.jobs = len(load.accepted) + len(load.scored)
    found.lost = sum(1 for key in load.scored if by_session[key] == 0)
    found.failed = collections.Counter(fault for state, fault, _ in jobs.values() if state == "failed")
    for job in load.accepted:
        state = jobs.get(job, ("absent", None, None))[0]
        if state not in ("succeeded", "failed") or (state == "succeeded" and by_job[job] == 0):
            found.lost += 1
    # Rows without a 202 must end as well, because the client may still look for them.
    unheard = [job for job, (state, _, _) in jobs.items() if job not in load.accepted and state not in ("succeeded", "failed")]
    if unheard:
        found.notes.append(f"{len(unheard)} rows without a 202 never ended")
        found.lost += len(unheard)
    if load.given_up:
        found.notes.append(f"{load.given_up} clients gave up")
    found.twice = sum(1 for count in by_job.values() if count > 1) + sum(1 for count in by_session.values() if count > 1)
    found.superseded = sum(1 for _, _, superseded in scores if superseded is not None)
    return found
