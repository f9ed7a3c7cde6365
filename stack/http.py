"""An HTTP client that exposes every part of a response."""

import http.client
import json
import select
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stack import PATIENCE


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def replica(self) -> str | None:
        return self.headers.get("corelane-replica")

    def json(self) -> object:
        return json.loads(self.body)


class Client:
    """A keep-alive connection, reopened after the other side has closed it.

    It uses TLS for an `https://` URL or with a certificate to trust, and otherwise accepts any
    certificate.
    """

    def __init__(
        self, url: str, authority: Path | None = None, *, timeout: float = PATIENCE
    ) -> None:
        split = urlsplit(url)
        if authority or split.scheme == "https":
            tls = ssl.create_default_context(cafile=authority and str(authority))
            if not authority:
                tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            self._connection = http.client.HTTPSConnection(
                split.netloc, timeout=timeout, context=tls
            )
        else:
            self._connection = http.client.HTTPConnection(split.netloc, timeout=timeout)

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        self._connection.request(method, path, body=body, headers=dict(headers or {}))
        reply = self._connection.getresponse()
        headers = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, headers, reply.read())

    def drop_if_closed(self) -> bool:
        """Closes an idle connection if the other side has closed it; returns whether it had."""
        socket = self._connection.sock
        # On an idle connection, only the end of the stream is readable.
        if socket is None:
            return False
        # Use poll, because select(2) supports no descriptor above 1023.
        looked = select.poll()
        looked.register(socket, select.POLLIN)
        if not looked.poll(0):
            return False
        self.close()
        return True

    def close(self) -> None:
        self._connection.close()


def ask(
    url: str,
    path: str = "",
    method: str = "GET",
    authority: Path | None = None,
    *,
    timeout: float = PATIENCE,
    **more: object,
) -> Reply:
    """Each request has its own connection; the path may be part of the URL."""
    client = Client(url, authority, timeout=timeout)
    try:
        return client.ask(path or urlsplit(url).path or "/", method, **more)
    finally:
        client.close()


def replies(url: str, path: str = "", status: int = 200, *, timeout: float = 2.0) -> bool:
    try:
        return ask(url, path, timeout=timeout).status == status
    except (OSError, http.client.HTTPException):
        return False
