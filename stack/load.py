"""A load that accounts for every request: a request without a response counts as failed."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from stack import PATIENCE, eventually
from stack.http import Client


@dataclass
class Load:
    """Keep-alive clients, each of which sends one request at a time until `stop`.

    With a `rate` in requests per second for all clients, each client sends its next request when it
    is due. A client reopens a connection that was closed while idle (RFC 9112, section 9.5). A
    connection that closes after a request was sent is a failure.

    The context starts with the first responses and ends with the last response of every client.
    After a response with `Connection: close`, a client connects to `url` again, which may lead to a
    different server by then.
    """

    url: str
    path: str = "/hello"
    clients: int = 8
    connect: Callable[[str], Client] = Client
    rate: float | None = None
    replies: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """Send time and response time of each request, in seconds."""
    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(client,), daemon=True)
            for client in range(self.clients)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self.wait_for(1)
        except BaseException:
            # Python calls `__exit__` only after `__enter__` has returned.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def total(self) -> int:
        return sum(self.replies.values())

    def wait_for(
        self, more: int, replica: str | None = None, *, patience: float = PATIENCE
    ) -> None:
        def count() -> int:
            return self.replies[replica] if replica else self.total

        wanted = count() + more
        eventually(
            lambda: self.failures or count() >= wanted,
            f"{more} replies of {replica or 'any'}",
            patience=patience,
        )

    def _run(self, index: int) -> None:
        client = self.connect(self.url)
        while self._turn(index, client):
            begun = time.monotonic()
            try:
                reply = client.ask(self.path)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{time.strftime('%T')} {type(error).__name__}: {error}")
                client.close()
                client = self.connect(self.url)
                continue
            self.times.append((begun, time.monotonic() - begun))
            if reply.status == 200:
                with self._lock:
                    self.replies[reply.replica] += 1
                # Times of the first and the last request to each replica.
                self.first.setdefault(reply.replica, begun)
                self.last[reply.replica] = begun
            else:
                self.failures.append(
                    f"{time.strftime('%T')} {reply.status} {reply.body!r} {reply.headers}"
                )
            if reply.headers.get("connection") == "close":
                client.close()
                client = self.connect(self.url)
        client.close()

    def _turn(self, index: int, client: Client) -> bool:
        """Waits until the client's next request is due; returns False if there are no more
        requests."""
        if self.rate is not None:
            period = self.clients / self.rate
            offset = period * index / self.clients
            self._stop.wait(period - (time.monotonic() - offset) % period)
            client.drop_if_closed()
        return not self._stop.is_set()
