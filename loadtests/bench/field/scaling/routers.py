"""The servers of many routes."""

from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment.servers import CONNECTIONS

LOCATION = (
    'location ^~ {prefix} {{ default_type "text/plain; charset=utf-8"; return 200 "{body}"; }}'
)

NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {address} backlog=4096;
    {locations}
  }}
}}
"""


@dataclass(frozen=True)
class Programs:
    """What the servers are started from."""

    peers: Path
    """The folder of the programs of `peers/routes`."""
    nginx: Path


@dataclass(frozen=True)
class Router:
    """A server of so many routes, as `lanes.servers.running` starts it."""

    name: str
    routes: int
    program: str
    flags: tuple[str, ...] = ()

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        if self.program == "nginx":
            file = folder / "nginx.conf"
            file.write_text(_nginx(self.routes, address, folder))
            return [str(programs.nginx), "-p", str(folder), "-c", str(file)]
        argv = [str(programs.peers / self.program), "--listen", address]
        return [*argv, "--routes", str(self.routes), *self.flags]


def routers(count: int) -> list[Router]:
    """All that are compared, with so many routes."""
    return [
        Router("Corelane with matchit", count, "routes_corelane", ("--router", "matchit")),
        Router("Corelane with axum's Router", count, "routes_corelane", ("--router", "axum")),
        Router("axum", count, "routes_axum"),
        Router("actix-web", count, "routes_actix"),
        Router("nginx", count, "nginx"),
    ]


def _nginx(count: int, address: str, folder: Path) -> str:
    """A location for each route; a prefix takes the place of the parameter, which nginx does not have."""
    routes = [(f"/area-{n // 100}/kind-{n % 100}/", f"route {n:07}") for n in range(count)]
    routes.append(("/hello", "Hello, World!"))
    locations = (LOCATION.format(prefix=prefix, body=body) for prefix, body in routes)
    return NGINX.format(
        address=address,
        connections=CONNECTIONS,
        folder=folder,
        locations="\n    ".join(locations),
    )
