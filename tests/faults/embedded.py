"""Failures of `gavel up`, a process with SQLite: killed repeatedly, or on a full disk."""

import asyncio
import collections
import os
import signal
import sqlite3
import time
import uuid

import cluster
import servers
import stub
import wire


class Embedded:
    def __init__(self, place, binary, data_dir, seed):
        self.place, self.binary, self.data_dir = place, binary, data_dir
        self.stub = stub.Stub(servers.free_port(), seed)
        self.port = servers.free_port()
        self.http = wire.Http(self.port)
        path = os.path.join(place.folder, "judges-up.yaml")
        with open(path, "w") as file:
            file.write(
                f"judge:\n  type: openai\n  base_url: http://127.0.0.1:{self.stub.port}/v1\n  auth: none\n"
                "  model: judge-1\n  timeout_s: 10\n"
            )
        self.env = {
            "GAVEL_BIND": f"127.0.0.1:{self.port}",
            "GAVEL_DATA_DIR": data_dir,
            "GAVEL_LLM_PROVIDERS": path,
            "DEFAULT_LLM_PROVIDER": "judge",
        }
        self.up = cluster.Service(self, "up", ["up"], {})

    async def is_live(self, seconds=60):
        async def live():
            try:
                status, _, _ = await self.http.request("GET", "/livez", timeout=1.0)
                return status == 200
            except wire.Gone:
                return False

        return await servers.until(live, seconds, 0.02)

    async def rows(self, sql):
        def read():
            connection = sqlite3.connect(f"file:{self.data_dir}/gavel.db?mode=ro", uri=True, timeout=5)
            try:
                return [[text(value) for value in row] for row in connection.execute(sql)]
            finally:
                connection.close()

        try:
            return await asyncio.to_thread(read)
        except sqlite3.Error as error:
            raise wire.Gone(str(error)) from error


def text(value):
    """A value as Postgres would print it."""
    if isinstance(value, bytes) and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    return value if value is None else str(value)


async def kills(up, run, times):
    """Kills and restarts it this many times under load."""
    up.up.start()
    await up.is_live()
    run.load.start()
    for _ in range(times):
        await asyncio.sleep(run.load.chance.uniform(0.2, 0.9))
        up.up.signal(signal.SIGKILL)
        await up.up.restart()
        if not await up.is_live():
            raise RuntimeError("gavel up doesn't come back: see up.log")
    run.over()


async def full_disk(up, run, seconds):
    up.up.start()
    await up.is_live()
    await run.loaded(0.25)
    filler, ready = os.path.join(up.data_dir, "filler"), collections.Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # Repeatedly, because the database releases space.
        try:
            with open(filler, "ab", buffering=0) as file:
                while True:
                    try:
                        file.write(b"x" * 65536)
                    except OSError:
                        file.write(b"x" * 512)
        except OSError:
            pass
        try:
            _, _, body = await up.http.request("GET", "/readyz", timeout=2.0)
            ready["full" if "disk is full" in str(body) else "ok"] += 1
        except wire.Gone as gone:
            ready[str(gone)] += 1
        await asyncio.sleep(0.5)
    refused = run.load.refusals()
    os.remove(filler)
    run.over()
    run.notes.append("full: readyz " + ", ".join(f"{what} x {n}" for what, n in ready.items()))
    if not refused:
        run.notes.append("NOTHING WAS REFUSED WHILE IT WAS FULL")
    # Counts from the first rejected write.
    if ready["full"] < sum(ready.values()) / 2:
        run.notes.append("READYZ DID NOT SAY THAT IT IS FULL")
