"""The private servers and processes of the drill: started, stopped, frozen and killed by id, all on loopback.

`Place.clean` stops and removes everything started here, also after a failure or Ctrl-C.
"""

import asyncio
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import wire

ROOT = os.geteuid() == 0
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


def free_port():
    """A loopback port without a listener, below the range of outgoing connections."""
    for _ in range(200):
        port = 20000 + int.from_bytes(os.urandom(2), "big") % 12000
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                taken.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port")


def clock(offset):
    """The environment that shifts a process's wall clock by this offset. Its monotonic clock isn't affected."""
    return {
        "LD_PRELOAD": faketime(),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def faketime():
    """Path of libfaketime; empty if it is missing."""
    found = [FAKETIME] + glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    return next((path for path in found if os.path.exists(path)), "")


async def until(check, seconds, every=0.1):
    """Waits until the check is true and returns whether it became true in time."""
    end = time.monotonic() + seconds
    while True:
        if await check():
            return True
        if time.monotonic() > end:
            return False
        await asyncio.sleep(every)


async def at(moment):
    """Sleeps until a time of the monotonic clock."""
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


class Place:
    def __init__(self, keep):
        # Root passes a part of it to the user postgres, which can't access a private TMPDIR.
        self.folder = tempfile.mkdtemp(prefix="gavel-drill.", dir="/tmp" if ROOT else None)
        os.chmod(self.folder, 0o711)
        self.keep = keep
        self.processes = []
        self.mounts = []

    def start(self, name, command, env=None, user=None, **more):
        """Starts a process with output to NAME.log."""
        log = open(os.path.join(self.folder, f"{name}.log"), "ab")
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        process = subprocess.Popen(
            command,
            cwd=more.pop("cwd", self.folder),
            env=kept | (env or {}),
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=more.pop("stdout", log),
            stderr=log,
            user=user,
            group=user and pwd.getpwnam(user).pw_gid,
            extra_groups=[] if user else None,
            # Ctrl-C only reaches the drill, which then stops them in order.
            start_new_session=True,
            **more,
        )
        log.close()
        self.processes.append(process)
        return process

    def log(self, name):
        with open(os.path.join(self.folder, f"{name}.log"), errors="replace") as file:
            return file.read()

    def warnings(self, name):
        return sum(" WARN " in line or " ERROR " in line for line in self.log(name).splitlines())

    def forget(self, process):
        if process in self.processes:
            self.processes.remove(process)

    def mount_memory(self, name, megabytes):
        """Mounts a file system of that size; empty if that isn't allowed."""
        path = os.path.join(self.folder, name)
        os.makedirs(path)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", path], capture_output=True)
        if made.returncode:
            return ""
        self.mounts.append(path)
        return path

    def unmount(self, path):
        for _ in range(20):
            if subprocess.run(["umount", path], capture_output=True).returncode == 0:
                self.mounts.remove(path)
                return
            time.sleep(0.2)

    def clean(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                signal_tree(process.pid, signal.SIGCONT)
        for process in reversed(self.processes):
            if process.poll() is None:
                # A killed postmaster leaves its children; an immediate stop (SIGQUIT) ends them as well.
                process.send_signal(signal.SIGQUIT if "postgres" in str(process.args[0]) else signal.SIGKILL)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for path in list(self.mounts):
            self.unmount(path)
        if self.keep:
            # Keeps only the logs, because the databases are large.
            for path in glob.glob(f"{self.folder}/postgres/data") + glob.glob(f"{self.folder}/data-*"):
                shutil.rmtree(path, ignore_errors=True)
            print(f"kept: {self.folder}", flush=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def children(pid):
    found = []
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(task) as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


def signal_tree(pid, number):
    for each in [pid, *children(pid)]:
        try:
            os.kill(each, number)
        except ProcessLookupError:
            pass


def find(name, *folders):
    """The first program of this name in these folders or in PATH."""
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, name)), reverse=True):
            if os.access(path, os.X_OK):
                return path
    return shutil.which(name)


class PostgresServer:
    """A private Postgres, behind the proxy that gavel uses."""

    def __init__(self, place):
        self.place = place
        self.program = find("postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
        self.initdb = self.program and os.path.join(os.path.dirname(self.program), "initdb")
        self.user = "postgres" if ROOT else None
        self.home = os.path.join(place.folder, "postgres")
        self.port, self.proxy_port = free_port(), free_port()
        self.process = self.proxy = None
        # `max_connections` of the server.
        self.slots = 300
        # The superuser. The role gavel owns the tables and can be rejected.
        self.control = wire.Postgres(self.port, "drill")
        self.url = f"postgres://gavel@127.0.0.1:{self.proxy_port}/postgres"

    async def make(self):
        """Creates the data folder, starts the server and the proxy."""
        os.makedirs(self.home)
        if self.user:
            shutil.chown(self.home, self.user)
        command = [self.initdb, "-D", f"{self.home}/data", "-U", "drill", "-E", "UTF8", "--no-locale", "--auth=trust", "--no-sync"]
        made = self.place.start("initdb", command, user=self.user, cwd=self.home)
        if made.wait(60):
            raise RuntimeError("initdb failed: see initdb.log")
        self.place.forget(made)
        await self.again()
        await self.control.rows("create role gavel login; alter schema public owner to gavel")
        await self.password("first")
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "proxy.py")]
        self.proxy = self.place.start(
            "proxy", [*command, str(self.proxy_port), str(self.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await asyncio.to_thread(self.proxy.stdout.readline)

    async def again(self, env=None):
        """Starts the server with its existing data."""
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", f"max_connections={self.slots}", "fsync=off", "autovacuum=on"]
        command = [self.program, "-D", f"{self.home}/data", "-p", str(self.port)]
        for setting in settings:
            command += ["-c", setting]
        self.process = self.place.start("postgres", command, env=env, user=self.user, cwd=self.home)
        if not await until(self.answers, 60):
            raise RuntimeError("Postgres doesn't answer: see postgres.log")

    async def answers(self):
        probe = wire.Postgres(self.port, "drill")
        try:
            await probe.rows("select 1", timeout=2)
            return True
        except wire.Gone:
            return False
        finally:
            probe.close()

    async def stop(self, number):
        """Stops it: SIGINT is a fast shutdown, SIGQUIT an immediate one."""
        self.control.close()
        self.process.send_signal(number)
        await asyncio.to_thread(self.process.wait, 60)
        self.place.forget(self.process)

    def tell_proxy(self, word):
        self.proxy.stdin.write(word.encode() + b"\n")
        self.proxy.stdin.flush()
        self.proxy.stdout.readline()

    async def admit(self, line=""):
        """Prepends a line for the role gavel to `pg_hba.conf`, or removes it."""
        path = f"{self.home}/data/pg_hba.conf"
        with open(path) as file:
            others = [line for line in file if not line.startswith("host all gavel")]
        with open(path, "w") as file:
            file.writelines([f"host all gavel {line}\n" if line else "", *others])
        await self.control.rows("select pg_reload_conf()")

    async def password(self, text):
        """Sets the password of the role gavel."""
        await self.control.rows(f"alter role gavel password '{text}'")

    async def cut_role(self):
        await self.control.rows("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'gavel'")


class RedisServer:
    def __init__(self, place):
        self.place = place
        self.program = find("redis-server") or find("valkey-server")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None

    async def again(self):
        """Starts it, empty."""
        command = [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = self.place.start("redis", command)
        if not await until(self.answers, 20):
            raise RuntimeError("Redis doesn't answer: see redis.log")

    async def answers(self):
        try:
            return await self.ask("ping", timeout=1) == "+PONG"
        except wire.Gone:
            return False

    async def ask(self, *words, timeout=5.0):
        return await wire.redis(self.port, *words, timeout=timeout)

    def kill(self):
        """Kills it; its data is lost."""
        self.process.kill()
        self.process.wait()
        self.place.forget(self.process)
