"""A judge with a chat completions API that counts its calls, with failures by command. Loopback only.

Every session of the drill has a mark in its prompt, so the judge detects a second call for a session
by any process.
"""

import asyncio
import collections
import json
import random
import re
import time

MARK = re.compile(rb"drill-([0-9a-f]{16})")


class Stub:
    """The judge. `mode` is its behaviour for new calls."""

    def __init__(self, port, seed):
        self.port = port
        self.chance = random.Random(seed)
        self.mode = "good"
        # Long enough that a killed worker has active jobs, short enough that three workers keep up with the load.
        self.delay = 0.3
        # (time, mark, caller, response)
        self.calls = []
        self.by_mark = collections.Counter()
        self.first_call = {}
        # Connections accepted and reset while the port counted as closed.
        self.resets = []
        self.in_flight = collections.Counter()
        self.changed = asyncio.Event()
        self.server = None

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, limit=1 << 22, backlog=1024)

    async def close_port(self):
        self.server.close()
        self.server = None

    def say(self, mode):
        """Changes the mode; hanging calls resume."""
        self.mode = mode
        self.changed.set()
        self.changed = asyncio.Event()

    async def serve(self, reader, writer):
        try:
            if self.mode == "reset":
                self.resets.append(time.monotonic())
                writer.transport.abort()
                return
            while await self.one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()

    async def one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1])
        asker = re.search(rb"(?i)\r\nx-drill: *(\S+)", head)
        body = await reader.readexactly(length)
        found = MARK.search(body)
        mark = found[1].decode() if found else ""
        now, mode = time.monotonic(), self.mode
        self.by_mark[mark] += 1
        self.first_call.setdefault(mark, now)
        asker = asker[1].decode() if asker else ""
        self.calls.append((now, mark, asker, mode))
        self.in_flight[asker] += 1
        try:
            return await self.answer(mode, writer, body)
        finally:
            self.in_flight[asker] -= 1

    async def answer(self, mode, writer, body):
        if mode == "reset":
            writer.transport.abort()
            return False
        if mode == "hang":
            changed = self.changed
            await changed.wait()
            mode = "good"
        if mode == "noisy":
            dice = self.chance.random()
            if dice < 0.15:
                return await send(writer, 429, error("rate_limit_exceeded"), "Retry-After: 1\r\n")
            if dice < 0.30:
                await asyncio.sleep(self.delay)
                return await send(writer, 500, error("server_error"))
        if mode == "503":
            return await send(writer, 503, error("unavailable"))
        if mode == "html":
            return await send(writer, 200, b"<html><body>Welcome to the proxy</body></html>", kind="text/html")
        if mode == "large":
            return await self.large(writer)
        await asyncio.sleep(self.delay)
        reply = good(body)
        if mode == "drip":
            return await self.drip(writer, reply)
        return await send(writer, 200, reply)

    async def large(self, writer):
        """50 MB of JSON without a complete value."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 52428800\r\n\r\n")
        piece = b" " * 262144
        for _ in range(200):
            writer.write(piece)
            await writer.drain()
        return True

    async def drip(self, writer, reply):
        """One byte a second, until the client disconnects or the mode changes."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply))
        for at in range(len(reply)):
            writer.write(reply[at : at + 1])
            await writer.drain()
            if self.mode == "drip":
                await asyncio.sleep(1.0)
        return True

    def calls_per_job(self, marks):
        """Number of calls of each caller: average and maximum."""
        counts = [self.by_mark[mark] for mark in marks]
        return (sum(counts) / len(counts), max(counts)) if counts else (0.0, 0)


async def send(writer, status, body, more="", kind="application/json"):
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return True


def error(code):
    return json.dumps({"error": {"message": f"the drill's judge says {code}", "type": "drill", "param": None, "code": code}}).encode()


def good(body):
    """A reply over the dimensions of the request's schema."""
    request = json.loads(body)
    schema = request["response_format"]["json_schema"]["schema"]
    parts = schema["properties"]["score_breakdown"]["properties"]
    reply = {
        "score_reasoning": "The agent listed the pods before it read their logs; it never asked for earlier restarts.",
        "score_breakdown": {name: 15 for name in parts},
        "total_score": 15 * len(parts),
        "missing_tools": [{"tool_name": "kubectl-events", "rationale": "It names the probe that failed."}],
        "alternative_approaches": [
            {"name": "Events first", "description": "Begin with what the cluster says happened.", "steps": ["read the events"]}
        ],
    }
    return json.dumps(
        {
            "id": "chatcmpl-drill",
            "object": "chat.completion",
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(reply)}}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 200},
        }
    ).encode()
