"""Minimal clients of HTTP, Postgres and Redis. They don't retry."""

import asyncio
import json
import struct


class Gone(Exception):
    """The peer didn't respond: connection rejected, disconnected, or too slow."""


class Http:
    """A client with keep-alive connections to one address."""

    def __init__(self, port):
        self.port = port
        self.idle = []

    async def request(self, method, path, body=None, timeout=5.0, headers=""):
        """Returns (status, headers, parsed body), or raises Gone. A body of bytes is sent unchanged, any other as JSON."""
        try:
            return await asyncio.wait_for(self._request(method, path, body, headers), timeout)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            raise Gone(type(error).__name__) from error

    async def _request(self, method, path, body, more):
        is_raw = isinstance(body, bytes)
        data = b"" if body is None else body if is_raw else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Length: {len(data)}\r\n{more}"
        if data and not is_raw:
            head += "Content-Type: application/json\r\n"
        reader, writer = None, None
        while self.idle and writer is None:
            reader, writer = self.idle.pop()
            if reader.at_eof() or writer.is_closing():
                writer.close()
                reader, writer = None, None
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(head.encode() + b"\r\n" + data)
            status, headers, answer = await read_response(reader)
        except BaseException:
            writer.close()
            raise
        if headers.get("connection", "") == "close":
            writer.close()
        else:
            self.idle.append((reader, writer))
        return status, headers, json.loads(answer) if answer[:1] in (b"{", b"[") else answer


async def read_head(reader):
    """Reads a head: the first line and the headers, with names in lower case."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return lines[0], headers


async def read_response(reader):
    first, headers = await read_head(reader)
    status = int(first.split(" ")[1])
    if "content-length" in headers:
        return status, headers, await reader.readexactly(int(headers["content-length"]))
    parts = []
    while headers.get("transfer-encoding", "") == "chunked":
        size = int((await reader.readline()).strip(), 16)
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
        if size == 0:
            break
    return status, headers, b"".join(parts)


class Postgres:
    """A connection with trust authentication that bypasses the proxies; reopened after a loss."""

    def __init__(self, port, user, database="postgres"):
        self.port = port
        self.user = user
        self.database = database
        self.reader = self.writer = None
        self.turn = asyncio.Lock()

    async def rows(self, sql, timeout=10.0):
        """Runs statements and returns the rows of all of them as lists of texts; raises Gone."""
        async with self.turn:
            return await self._bounded(sql, timeout)

    async def _bounded(self, sql, timeout):
        try:
            return await asyncio.wait_for(self._rows(sql), timeout)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Gone(type(error).__name__) from error
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def _rows(self, sql):
        if self.writer is None:
            await self._open()
        text = sql.encode() + b"\0"
        self.writer.write(b"Q" + struct.pack("!i", len(text) + 4) + text)
        return await self._until_ready()

    async def _open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        words = f"user\0{self.user}\0database\0{self.database}\0application_name\0drill\0\0".encode()
        self.writer.write(struct.pack("!ii", len(words) + 8, 196608) + words)
        await self._until_ready()
        # Resets global settings of a failure for this session.
        text = b"set statement_timeout = 0; set default_transaction_read_only = off\0"
        self.writer.write(b"Q" + struct.pack("!i", len(text) + 4) + text)
        await self._until_ready()

    async def _until_ready(self):
        rows, fault = [], None
        while True:
            head = await self.reader.readexactly(5)
            body = await self.reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)
            kind = head[:1]
            if kind == b"D":
                rows.append(columns(body))
            elif kind == b"E":
                fault = body.replace(b"\0", b" ").decode(errors="replace")
                if b"FATAL" in body:
                    raise OSError(fault)
            elif kind == b"Z":
                if fault:
                    raise Gone(fault)
                return rows


def columns(body):
    found, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = struct.unpack("!i", body[at : at + 4])[0]
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return found


async def redis(port, *words, timeout=5.0):
    """Sends one command on a new connection and returns the first line of the reply."""

    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            texts = [str(word).encode() for word in words]
            writer.write(b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(t), t) for t in texts))
            line = (await reader.readline()).decode().strip()
            if line.startswith("$") and line != "$-1":
                return (await reader.readexactly(int(line[1:]))).decode()
            return line
        finally:
            writer.close()

    try:
        return await asyncio.wait_for(ask(), timeout)
    except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
        raise Gone(type(error).__name__) from error
