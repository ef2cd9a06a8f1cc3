"""A forced rescore during the failures: a sequence of backlogs over the same sessions."""

import asyncio
import collections
import time
import uuid

import cluster
import servers
import wire


class Backlog:
    """The rescored sessions, and the backlogs over them."""

    def __init__(self, c, size):
        self.c, self.size = c, size
        self.sessions = {}
        self.batches = []

    async def start(self, say):
        say(f"{self.size} sessions to rescore meanwhile")
        for _ in range(self.size):
            key = str(uuid.UUID(int=self.c.chance.getrandbits(128), version=4))
            self.sessions[key] = f"{self.c.chance.getrandbits(64):016x}"
        todo = collections.deque(self.sessions.items())

        async def put():
            while todo:
                key, mark = todo.popleft()
                status, _, answer = await self.c.http.request("PUT", f"/api/v1/sessions/{key}", cluster.session(mark), 30.0)
                if status >= 300:
                    raise RuntimeError(f"PUT of a session: {status} {answer}")

        await asyncio.gather(*[put() for _ in range(8)])
        await self.begin()

    async def begin(self):
        """Starts a backlog exactly once, even if the response is lost."""
        body = {"filter": {"ids": list(self.sessions)}, "force_rescore": True, "name": f"drill {len(self.batches)}"}

        key = f"Idempotency-Key: drill-{self.c.chance.getrandbits(64):016x}\r\n"

        async def asked():
            try:
                status, _, answer = await self.c.http.request("POST", "/api/v1/rescore", body, 30.0, key)
            except wire.Gone:
                return False
            if status < 300:
                self.batches.append(answer["batch_id"])
            return status < 300

        if not await servers.until(asked, 60, 1.0):
            raise RuntimeError("POST /api/v1/rescore isn't answered")

    async def state(self):
        found = await self.c.postgres.control.rows(f"select state from scoring_batches where batch_id = '{self.batches[-1]}'")
        return found[0][0] if found else "absent"

    async def again(self):
        try:
            if await self.state() == "completed":
                await self.begin()
        except wire.Gone:
            # Postgres is unavailable: retried after the next failure.
            pass

    async def verdict(self, row_type):
        """Waits for the last one and checks that each backlog scored each session once."""
        row = row_type(f"forced rescore of {self.size}, {len(self.batches)} times", None)
        began = time.monotonic()

        async def ended():
            try:
                return await self.state() == "completed"
            except wire.Gone:
                return False

        if not await servers.until(ended, cluster.PATIENCE + self.size / 20, 0.5):
            row.notes.append(f"the last backlog is {await self.state()}")
        row.rest = time.monotonic() - began
        rows, failed = self.c.postgres.control.rows, collections.Counter()
        for batch in self.batches:
            jobs = await rows(
                "select j.state, j.error_class, j.subject_id, (select count(*) from session_scores s where s.job_id = j.job_id) "
                f"from scoring_jobs j where j.batch_id = '{batch}'"
            )
            row.jobs += len(jobs)
            subjects = collections.Counter(subject for _, _, subject, _ in jobs)
            row.twice += sum(1 for n in subjects.values() if n > 1) + sum(1 for job in jobs if int(job[3]) > 1)
            row.lost += self.size - len(subjects)
            for state, fault, _, scores in jobs:
                if state == "failed":
                    failed[fault] += 1
                elif state != "succeeded" or scores == "0":
                    row.lost += 1
        current = await rows(
            "select session_id from session_scores where superseded_at is null and purpose = 'score' "
            f"and session_id in ({cluster.quoted(self.sessions)}) group by session_id having count(*) > 1"
        )
        row.twice += len(current)
        row.failed = ", ".join(f"{what} x {n}" for what, n in failed.items())
        # Jobs may fail here during failures of the judge.
        row.may_fail = True
        row.calls, row.most = self.c.stub.calls_per_job(self.sessions.values())
        row.calls, row.most = row.calls / len(self.batches), row.most
        return row
