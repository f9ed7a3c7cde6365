"""The soak's clients: correct clients, and each kind of misbehaviour."""

import asyncio
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

from stack import HOST

PATIENCE = 30.0
"""Maximum seconds to wait for a response."""

PATHS = {"/": 200, "/hello": 200, "/div/7": 200, "/work?ops=20000": 200, "/static/4k.txt": 200}
REFUSED = {"/nothing": 404, "/div/seven": 400, "/work?ops=": 400}
ANSWERS = {**PATHS, **REFUSED}

H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
H2_HEADERS, H2_SETTINGS, H2_GOAWAY = 1, 4, 7
H2_END_STREAM, H2_END_HEADERS = 1, 4
# GET http://soak/ from entries of HPACK's static table (RFC 7541, appendix A) and one literal.
H2_REQUEST = bytes([0x82, 0x84, 0x86, 0x01, 4]) + b"soak"


@dataclass
class Clients:
    """Clients that connect and disconnect until a given time, with seeded random choices."""

    port: int
    seed: int
    number: int
    done: Counter = field(default_factory=Counter)
    failures: Counter = field(default_factory=Counter)

    async def run(self, until: float) -> None:
        workers = (self._work(random.Random(f"{self.seed}-{n}"), until) for n in range(self.number))
        await asyncio.gather(*workers)

    async def _work(self, rng: random.Random, until: float) -> None:
        names, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
        while time.monotonic() < until:
            (name,) = rng.choices(names, weights)
            _, behave = KINDS[name]
            try:
                async with asyncio.timeout(PATIENCE), _Connection(self.port, rng) as connection:
                    await behave(connection, rng)
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                # The server may close a misbehaving client's connection at any time.
                if name in GOOD:
                    self.failures[f"{name}: {type(error).__name__}: {error}"] += 1
            self.done[name] += 1
            await asyncio.sleep(rng.uniform(0, 0.05))


class _Connection:
    """One connection; `reset` closes it with a RST instead of a FIN."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self.port = port
        self.reset = rng.random() < 0.3

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(HOST, self.port, limit=1 << 16)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.reset:
            # Sets a linger time of 0 (socket(7)).
            linger = struct.pack("ii", 1, 0)
            link = self.writer.get_extra_info("socket")
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        # `close` would wait until buffered data has been sent.
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def get(self, path: str, *, last: bool = False) -> None:
        await self.exchange(
            _request(path, "Connection: close\r\n" if last else ""), ANSWERS[path], path
        )
        if last and await self.reader.read(1):
            raise ValueError(f"{path}: bytes after the end of the connection")

    async def exchange(self, request: bytes, expected: int, what: str) -> None:
        """The complete response must have this status."""
        await self.send(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
        length = head.partition("content-length:")[2].partition("\r\n")[0]
        await self.reader.readexactly(int(length))
        status = int(head.split(" ", 2)[1])
        if status != expected:
            raise ValueError(f"{what} was answered {status}")


def _request(path: str, more: str = "", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: soak\r\n{more}\r\n".encode("ascii")


TOO_LARGE = {
    "a header of 40,000 bytes": (_request("/hello", f"X-Soak: {'a' * 40_000}\r\n"), 431),
    "a target of 9,000 bytes": (_request("/" + "a" * 9_000), 414),
    "a body of 1 GiB": (_request("/hello", f"Content-Length: {1 << 30}\r\n", "POST"), 413),
}


async def _keep_alive(connection: _Connection, rng: random.Random) -> None:
    for path in rng.choices(list(ANSWERS), k=rng.randint(1, 20)):
        await connection.get(path)


async def _new_connection(connection: _Connection, rng: random.Random) -> None:
    await connection.get(rng.choice(list(PATHS)), last=True)


async def _half_header(connection: _Connection, rng: random.Random) -> None:
    """Sends a header that never ends."""
    request = _request("/hello", "X-Soak: " + "a" * rng.randint(0, 4000))
    await connection.send(request[: rng.randint(1, len(request) - 3)])
    await asyncio.sleep(rng.uniform(0, 0.3))


async def _aborted_upload(connection: _Connection, rng: random.Random) -> None:
    length = rng.randint(1 << 10, 1 << 20)
    await connection.send(_request("/hello", f"Content-Length: {length}\r\n", "POST"))
    await connection.send(b"b" * rng.randint(0, length // 2))
    await asyncio.sleep(rng.uniform(0, 0.1))


async def _gone_in_handler(connection: _Connection, rng: random.Random) -> None:
    """Leaves while the handler is running, or before it starts."""
    for _ in range(rng.randint(1, 3)):
        await connection.send(_request("/work?ops=1000000"))
    await asyncio.sleep(rng.uniform(0, 0.003))


async def _refused(connection: _Connection, rng: random.Random) -> None:
    """Requests more than the limits allow, and reads the rejection."""
    what = rng.choice(list(TOO_LARGE))
    await connection.exchange(*TOO_LARGE[what], what)


async def _slow_reader(connection: _Connection, rng: random.Random) -> None:
    """Requests more than the socket buffers hold, reads part of it slowly, and leaves."""
    link = connection.writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await connection.send(_request("/static/") * rng.randint(20, 200))
    for _ in range(rng.randint(1, 20)):
        await connection.reader.read(1024)
        await asyncio.sleep(rng.uniform(0, 0.05))


async def _idle(_connection: _Connection, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0, 1))


async def _not_http(connection: _Connection, rng: random.Random) -> None:
    """Sends bytes that are not a request; reads the server's reaction."""
    await connection.send(rng.randbytes(rng.randint(1, 200)) + b"\r\n\r\n")
    await asyncio.wait_for(connection.reader.read(), 0.5)


async def _http2(connection: _Connection, rng: random.Random) -> None:
    """Sends several concurrent requests over HTTP/2, all of which are answered."""
    streams = {2 * n + 1 for n in range(rng.randint(1, 20))}
    await _begin_http2(connection, streams)
    while streams:
        kind, flags, stream = await _read_frame(connection)
        if kind == H2_GOAWAY:
            raise ValueError("HTTP/2: the server says GOAWAY")
        if flags & H2_END_STREAM and kind != H2_SETTINGS:
            streams.discard(stream)


async def _http2_gone(connection: _Connection, rng: random.Random) -> None:
    """Sends many concurrent requests over HTTP/2; leaves after a few frames."""
    await _begin_http2(connection, range(1, 2 * rng.randint(1, 100), 2))
    for _ in range(rng.randint(0, 5)):
        await _read_frame(connection)


async def _begin_http2(connection: _Connection, streams: "set[int] | range") -> None:
    ends = H2_END_STREAM | H2_END_HEADERS
    frames = [_frame(H2_HEADERS, ends, stream, H2_REQUEST) for stream in sorted(streams)]
    settings = _frame(H2_SETTINGS, 0, 0, b"") + _frame(H2_SETTINGS, 1, 0, b"")
    await connection.send(H2_PREFACE + settings + b"".join(frames))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Returns an HTTP/2 frame (RFC 9113 section 4.1)."""
    return len(payload).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + payload


async def _read_frame(connection: _Connection) -> tuple[int, int, int]:
    head = await connection.reader.readexactly(9)
    await connection.reader.readexactly(int.from_bytes(head[:3]))
    return struct.unpack(">BBI", head[3:])


Behaviour = Callable[[_Connection, random.Random], Awaitable[None]]

KINDS: dict[str, tuple[int, Behaviour]] = {
    "keep_alive": (20, _keep_alive),
    "new_connection": (30, _new_connection),
    "half_header": (8, _half_header),
    "aborted_upload": (8, _aborted_upload),
    "gone_in_handler": (8, _gone_in_handler),
    "refused": (5, _refused),
    "slow_reader": (5, _slow_reader),
    "idle": (3, _idle),
    "not_http": (5, _not_http),
    "http2": (8, _http2),
    "http2_gone": (5, _http2_gone),
}

GOOD = {"keep_alive", "new_connection", "refused", "http2"}
"""Clients that must receive every response, including an expected rejection."""
