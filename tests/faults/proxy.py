"""A TCP proxy with failures by command, as a separate process: proxy.py LISTEN TARGET. Loopback only.

Commands are lines on stdin; each gets a line on stdout:
pass    forwards everything
stall   forwards no data, on old and new connections, until `pass`
freeze  existing connections go silent permanently (no RST, no FIN; the server's side ends); new ones work
cut     resets the existing connections
It exits when stdin ends.
"""

import asyncio
import socket
import struct
import sys


class Pair:
    def __init__(self, proxy):
        self.proxy = proxy
        self.client = None
        self.server = None
        self.frozen = False
        self.early = []

    def freeze(self):
        self.frozen = True
        if self.server:
            self.server.abort()

    def cut(self):
        for side in (self.client, self.server):
            if side:
                reset(side)


def reset(transport):
    held = transport.get_extra_info("socket")
    if held:
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    transport.abort()


class ClientSide(asyncio.Protocol):
    def __init__(self, proxy):
        self.pair = Pair(proxy)

    def connection_made(self, transport):
        self.pair.client = transport
        self.pair.proxy.pairs.add(self.pair)
        if self.pair.proxy.stalled:
            transport.pause_reading()
        self.task = asyncio.ensure_future(self.connect())

    async def connect(self):
        pair, loop = self.pair, asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: ServerSide(pair), "127.0.0.1", pair.proxy.target)
        except OSError:
            pair.client.abort()
            return
        for data in pair.early:
            pair.server.write(data)
        pair.early = []

    def data_received(self, data):
        if self.pair.frozen:
            return
        if self.pair.server is None:
            self.pair.early.append(data)
        else:
            self.pair.server.write(data)

    def connection_lost(self, _):
        self.pair.proxy.pairs.discard(self.pair)
        if self.pair.server:
            self.pair.server.close()


class ServerSide(asyncio.Protocol):
    def __init__(self, pair):
        self.pair = pair

    def connection_made(self, transport):
        self.pair.server = transport
        if self.pair.proxy.stalled:
            transport.pause_reading()

    def data_received(self, data):
        if not self.pair.frozen:
            self.pair.client.write(data)

    def connection_lost(self, _):
        if not self.pair.frozen and self.pair.client:
            self.pair.client.close()


class Proxy:
    def __init__(self, target):
        self.target = target
        self.pairs = set()
        self.stalled = False

    def each_side(self, act):
        for pair in self.pairs:
            for side in (pair.client, pair.server):
                if side and not side.is_closing():
                    try:
                        act(side)
                    except RuntimeError:
                        pass

    def told(self, word):
        if word == "stall":
            self.stalled = True
            self.each_side(lambda side: side.pause_reading())
        elif word == "pass":
            self.stalled = False
            self.each_side(lambda side: side.resume_reading())
        elif word == "freeze":
            for pair in list(self.pairs):
                pair.freeze()
        elif word == "cut":
            for pair in list(self.pairs):
                pair.cut()


async def main(listen, target):
    loop = asyncio.get_running_loop()
    proxy = Proxy(target)
    await loop.create_server(lambda: ClientSide(proxy), "127.0.0.1", listen)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("listening", flush=True)
    while line := await reader.readline():
        proxy.told(line.decode().strip())
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
