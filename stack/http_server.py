"""HTTP/1.1 servers in this process that respond with a function's result."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stack import HOST


class Request(BaseHTTPRequestHandler):
    """A request of any method gets one response, or its connection closes without one."""

    protocol_version = "HTTP/1.1"
    # Send head and body in one write.
    wbufsize = -1

    def body(self) -> bytes:
        """Handles chunked bodies: each chunk follows a line with its size, and the last chunk is
        empty."""
        if self.headers["transfer-encoding"] != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def reply(self, status: int = 200, *fields: tuple[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (*fields, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class _Server(ThreadingHTTPServer):
    # Let more than five connections wait: beyond that limit, the kernel drops new ones for a
    # second.
    request_queue_size = 128


@contextmanager
def serving(
    answer: Callable[[Request], None],
    host: str = HOST,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Iterator[str]:
    """Yields the server's URL; each connection has its own thread."""
    methods = {f"do_{name}": answer for name in ("GET", "POST", "PUT", "DELETE", "PATCH")}
    with _Server((host, port), type("Answered", (Request,), methods)) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http{'s' * bool(tls)}://{host}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
