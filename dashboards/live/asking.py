"""Requests to the parts of a stage, without a proxy of the environment."""

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

TIMEOUT = 30.0


@dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    body: bytes

    def json(self) -> object:
        """The body as JSON."""
        return json.loads(self.body)


def ask(
    url: str, method: str = "GET", body: object = None, *, timeout: float = TIMEOUT, **query: object
) -> Reply:
    """One request; what is given as `body` is sent as JSON, the rest as the URL's query."""
    at = urlsplit(url)
    path = (at.path or "/") + (f"?{urlencode(query, doseq=True)}" if query else "")
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=timeout)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text)
        reply = connection.getresponse()
        return Reply(reply.status, reply.read())
    finally:
        connection.close()


def well(url: str) -> bool:
    """Whether it is answered 200."""
    try:
        return ask(url, timeout=2).status == 200
    except (OSError, http.client.HTTPException):
        return False
