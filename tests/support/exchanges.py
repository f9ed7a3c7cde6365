"""Concurrent clients of all kinds, one thread each."""

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

import grpc
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import CloseCode
from websockets.sync.client import connect as websocket

from stack import PATIENCE, eventually
from support.raw import connect

PAUSE = 0.1
TEXT = b"still here"
LINE = bytes([0x0A, len(TEXT)]) + TEXT
"""Field 1 of a Protocol Buffers message."""
HEARTBEAT = b":\n\n"


@dataclass
class Seen:
    got: int = 0
    begun: int = 0
    ends: Counter = field(default_factory=Counter)
    """Reasons why sessions ended, unless the client ended them."""

    def end(self, how: str) -> None:
        self.ends[how] += 1


Kind = Callable[[str, threading.Event, Seen], None]


def messages(url: str, stop: threading.Event, seen: Seen) -> None:
    """Exchanges WebSocket messages until the connection closes."""
    address = f"{url.replace('http', 'ws')}/mixed/echo"
    try:
        with websocket(address, open_timeout=PATIENCE, ping_interval=None, proxy=None) as session:
            seen.begun += 1
            while not stop.wait(PAUSE):
                session.send(TEXT, text=True)
                assert session.recv(PATIENCE) == TEXT.decode()
                seen.got += 1
    except InvalidStatus as refused:
        seen.end(f"status {refused.response.status_code}")
    except ConnectionClosed as end:
        left = end.rcvd and end.rcvd.code == CloseCode.GOING_AWAY
        seen.end("closed" if left else f"cut: {end}")


def events(url: str, stop: threading.Event, seen: Seen) -> None:
    """Reads an event stream until it ends."""
    with connect(url) as client:
        client.sendall(b"GET /mixed/events HTTP/1.1\r\nhost: gateway\r\n\r\n")
        received = client.recv(65536)
        if not received.startswith(b"HTTP/1.1 200 "):
            return seen.end(f"{received[:20]!r}")
        seen.begun += 1
        while not stop.is_set() and not received.endswith(b"\r\n0\r\n\r\n"):
            if not (data := client.recv(65536)):
                return seen.end(f"cut after {received[-40:]!r}")
            received += data
            seen.got = received.count(HEARTBEAT)
        if not stop.is_set():
            seen.end("bye" if b"event: bye\n" in received else f"{received[-40:]!r}")


@contextmanager
def channel(url: str) -> Iterator[grpc.Channel]:
    """A separate connection without retries."""
    options = {"grpc.enable_retries": 0, "grpc.use_local_subchannel_pool": 1}
    with grpc.insecure_channel(urlsplit(url).netloc, list(options.items())) as opened:
        yield opened


def calls(url: str, stop: threading.Event, seen: Seen) -> None:
    with channel(url) as opened:
        who = opened.unary_unary("/example.Talk/Who")
        seen.begun += 1
        while not stop.wait(PAUSE / 4):
            try:
                who(b"", timeout=PATIENCE)
                seen.got += 1
            except grpc.RpcError as error:
                seen.end(f"{error.code().name}: {error.details()}")


def talks(url: str, stop: threading.Event, seen: Seen) -> None:
    """Consecutive bidirectional calls on one connection, each until a status arrives."""
    with channel(url) as opened:
        echo = opened.stream_stream("/example.Talk/Echo")
        while not stop.is_set():
            lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            replies = echo(iter(lines.get, None))
            seen.begun += 1
            try:
                while not stop.wait(PAUSE):
                    lines.put(LINE)
                    assert next(replies, None) == LINE
                    seen.got += 1
            except grpc.RpcError as error:
                seen.end(f"{error.code().name}: {error.details()}")
            finally:
                lines.put(None)


class Exchanges:
    """Runs this many clients of each kind within the context."""

    def __init__(self, url: str, kinds: dict[Kind, int]) -> None:
        self._url = url
        self._stop = threading.Event()
        self._clients = [
            (kind, list[Seen]()) for kind, count in kinds.items() for _ in range(count)
        ]
        """One counter per client: `+=` is not atomic across threads."""

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._run, args=each) for each in self._clients]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def seen(self, kind: Kind) -> Seen:
        found = [own for each, sessions in self._clients if each == kind for own in list(sessions)]
        ends = sum((own.ends for own in found), Counter())
        return Seen(sum(own.got for own in found), sum(own.begun for own in found), ends)

    def wait_for_each(self, more: int) -> None:
        """Waits until every client has received this many more messages."""

        def got(sessions: list[Seen]) -> int:
            return sum(own.got for own in list(sessions))

        wanted = [(kind, sessions, got(sessions) + more) for kind, sessions in self._clients]

        def behind() -> list[str]:
            return [kind.__name__ for kind, sessions, least in wanted if got(sessions) < least]

        eventually(lambda: not behind(), f"{more} for each client", pause=PAUSE)

    def _run(self, kind: Kind, sessions: list[Seen]) -> None:
        while not self._stop.is_set():
            own = Seen()
            sessions.append(own)
            try:
                kind(self._url, self._stop, own)
            except (AssertionError, OSError, WebSocketException) as error:
                own.ends[repr(error)] += 1
                # Rejected clients must not spin.
                self._stop.wait(PAUSE)
