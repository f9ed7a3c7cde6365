"""A load that misses nothing: every request is either answered or counted as failed."""

import http.client
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from support import PATIENCE, eventually
from support.client import Client
from support.h2c import H2cClient


@dataclass
class Load:
    """Keep-alive clients that ask one after the other until told to stop.

    As a context manager: begins with the first replies, and ends with every client's last. Whoever
    is told that its connection closes goes to `url` again, which may name somebody else by then.
    """

    url: str
    path: str = "/hello"
    clients: int = 8
    connect: Callable[[str], Client | H2cClient] = Client
    replies: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, daemon=True) for _ in range(self.clients)
        ]
        for thread in self._threads:
            thread.start()
        try:
            self.wait_for(1)
        except BaseException:
            # Python does so only after `__enter__` has returned.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def total(self) -> int:
        """Replies so far."""
        return sum(self.replies.values())

    def wait_for(
        self, more: int, replica: str | None = None, *, patience: float = PATIENCE
    ) -> None:
        """Waits for this many more replies, of one replica or of any."""

        def count() -> int:
            return self.replies[replica] if replica else self.total

        wanted = count() + more
        eventually(
            lambda: self.failures or count() >= wanted,
            f"{more} replies of {replica or 'any'}",
            patience=patience,
        )

    def _run(self) -> None:
        client = self.connect(self.url)
        while not self._stop.is_set():
            try:
                reply = client.ask(self.path)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                client.close()
                client = self.connect(self.url)
                continue
            if reply.status == 200:
                self.replies[reply.replica] += 1
            else:
                self.failures.append(f"{reply.status} {reply.body!r} {reply.headers}")
            if reply.headers.get("connection") == "close":
                client.close()
                client = self.connect(self.url)
        client.close()
