"""What is compared: corelane-server with its connections parked or not, and nginx, over TCP and TLS."""

from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import HOST
from loadtests.ladder.network import BACKLOG

CORELANE = "corelane-server"

LASTING = "1h"
"""No connection may end by itself while it is measured."""

BODY = 64
"""Bytes of the body that sends a connection to hyper. The handler of /hello drops it unread, as many do."""

NGINX = """\
daemon off;
user root;
worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {address} backlog={backlog} reuseport{ssl};
    location = /hello {{ default_type text/plain; return 200 "Hello, World!"; }}
  }}
}}
"""
NGINX_TLS = """ ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.3;
    ssl_session_cache off"""
"""No cache: no client comes back, and nginx is not to keep a session for it. It frees the buffers of a
connection that waits by itself (ngx_http_request.c: SSL_MODE_RELEASE_BUFFERS and the header's buffer)."""


ROOM_OF_NGINX = 5
"""Quarters: it closes idle connections when less than a sixteenth of its table is free
(ngx_connection.c, ngx_drain_connections)."""


@dataclass(frozen=True)
class Programs:
    """What runs."""

    server: Path
    nginx: Path | None
    generator: Path


@dataclass(frozen=True)
class Place:
    """Where one server listens, and what it may use."""

    address: str
    admin: str
    folder: Path
    connections: int
    """It has room for so many."""
    park_after: str
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Arm:
    """A server, and how its connections come to wait."""

    name: str
    program: str = CORELANE
    parks: bool = False
    tls: bool = False
    body: bool = False
    """Each request has a body, so that corelane-server answers it through hyper."""

    def argv(self, programs: Programs, place: Place) -> list[str]:
        """How it is started."""
        return (self._corelane if self.program == CORELANE else self._nginx)(programs, place)

    def options(self, place: Place) -> dict[str, object]:
        """Of its clients."""
        found: dict[str, object] = {"body": BODY} if self.body else {}
        return found | ({"certificate": place.certificate} if self.tls else {})

    def _corelane(self, programs: Programs, place: Place) -> list[str]:
        argv = [programs.server, "--listen", place.address, "--admin.listen", place.admin]
        argv += ["--lanes", "1", "--pin", "on", "--replica", "bench", "--log.level", "error"]
        argv += ["--limits.connections", place.connections, "--backlog", BACKLOG]
        # A lane by itself refuses when more than 1,024 wait; no peer refuses anything.
        argv += ["--limits.queue", place.connections, "--drain.settle", "0s"]
        argv += ["--timeouts.idle", LASTING, "--timeouts.connection-age", "off"]
        argv += ["--park-after", place.park_after if self.parks else "off"]
        if self.tls:
            argv += ["--tls.certificate", place.certificate, "--tls.key", place.key]
        return list(map(str, argv))

    def _nginx(self, programs: Programs, place: Place) -> list[str]:
        ssl = NGINX_TLS.format(certificate=place.certificate, key=place.key) if self.tls else ""
        file = place.folder / "nginx.conf"
        room = place.connections * ROOM_OF_NGINX // 4
        file.write_text(
            NGINX.format(
                address=place.address,
                backlog=BACKLOG,
                connections=room,
                files=room + 100,
                folder=place.folder,
                ssl=ssl,
            )
        )
        return [str(programs.nginx), "-p", str(place.folder), "-c", str(file)]


PARKED = Arm("corelane, parked", parks=True)
NOT_PARKED = Arm("corelane, not parked")
NGINX_TCP = Arm("nginx", program="nginx")
NGINX_OVER_TLS = Arm("nginx, TLS", program="nginx", tls=True)
PARKED_BODY = Arm("corelane, parked, requests with a body", parks=True, body=True)
PARKED_TLS = Arm("corelane, parked, TLS", parks=True, tls=True)

ARMS = (
    PARKED,
    PARKED_BODY,
    NOT_PARKED,
    Arm("corelane, not parked, requests with a body", body=True),
    NGINX_TCP,
    PARKED_TLS,
    Arm("corelane, not parked, TLS", tls=True),
    NGINX_OVER_TLS,
)
"""Of the memory; in this order and then in the other, round by round."""

CLIMBING = (PARKED, NOT_PARKED)
"""Of the ladder."""

LOCAL = HOST
