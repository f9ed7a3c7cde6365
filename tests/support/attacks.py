"""Sends raw bytes through the gateway, and checks responses and the bytes received by the back end."""

import ssl
from dataclasses import dataclass, field

import pytest

from stack.http import Reply, ask
from support.raw import exchange
from support.recorder import Record, Recorder

HOST = b"host: gateway\r\n"

FINAL = b"GET /final HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
"""Sent after each payload, like another client's request on a shared connection."""


@dataclass(frozen=True)
class Upstream:
    """The way from the gateways to the back ends: plaintext unless stated otherwise."""

    values: dict = field(default_factory=dict)
    """Values of a gateway."""
    flags: tuple[object, ...] = ()
    """Flags of a server."""
    scheme: str = "http"
    tls: ssl.SSLContext | None = None
    """TLS settings of a recorder."""


@dataclass(frozen=True)
class Bench:
    """Two gateways with the chart's configuration, in front of a recorder and the real server."""

    url: str
    recorder: Recorder
    served: str
    stats: str

    def send(self, data: bytes) -> tuple[list[Reply], Record]:
        """Sends a payload and the final request."""
        self.recorder.take()
        replies = exchange(self.url, data + FINAL)
        return replies, self.record()

    def record(self) -> Record:
        # Once another client has its answer, all earlier data have been recorded.
        assert ask(self.url, "/other-client").status == 200
        record = self.recorder.take()
        other = record.requests.pop()
        assert other.line == b"GET /other-client HTTP/1.1"
        assert other.data in record.data
        record.data = record.data.replace(other.data, b"")
        return record

    def refuses(self, data: bytes, *statuses: int) -> None:
        """Rejected and closed without forwarding a byte."""
        replies, record = self.send(data)
        assert [reply.status for reply in replies] in [[x] for x in statuses or (400,)], replies
        assert replies[0].headers["connection"] == "close"
        assert not record.data

    def answers(self, data: bytes, status: int) -> None:
        """Answered by the gateway; the connection stays open."""
        replies, record = self.send(data)
        assert [reply.status for reply in replies] == [status, 200], replies
        (final,) = record.requests
        assert (final.line, final.data) == (b"GET /final HTTP/1.1", record.data)

    def cuts(self, data: bytes, status: int = 400) -> None:
        """Rejected within the body: the back end sees an incomplete request."""
        replies, record = self.send(data)
        assert [reply.status for reply in replies] == [status], replies
        assert not record.requests
        assert not record.unclear
        assert b"0\r\n\r\n" not in record.data
        assert b"smuggled" not in record.data

    def arrives(self, data: bytes, *requests: bytes) -> Record:
        """The back end receives exactly these requests, `line body`, and the final one."""
        expected = [*requests, b"GET /final HTTP/1.1"]
        replies, record = self.send(data)
        seen = [b" ".join(x for x in (each.line, each.body) if x) for each in record.requests]
        assert (seen, record.unclear) == (expected, []), record
        final = [reply.status for reply in replies if reply.status != 100]
        assert final == [200] * len(expected), replies
        return record

    def passes(
        self, data: bytes, *requests: bytes, default: bytes = b"POST /first HTTP/1.1 hello"
    ) -> Record:
        """Like `arrives`, and also checks that the real server answers the same number of requests."""
        requests = requests or (default,)
        record = self.arrives(data, *requests)
        served = [reply for reply in exchange(self.served, data + FINAL) if reply.status != 100]
        assert [reply.replica for reply in served] == ["test"] * (len(requests) + 1), served
        return record


def table(*rows: tuple) -> list:
    return [pytest.param(*row, id=repr(row[0])[2:42]) for row in rows]
