"""The file servers under measurement: what each is started with."""

import getpass
import shutil
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment import servers
from local.settings import REPOSITORY

STATIC = REPOSITORY / "services" / "server" / "static"

FILES = {"4 KiB": "4k.txt", "10.8 kB": "index.html"}
"""What is asked for, by its name in tables."""

CORELANE = servers.CORELANE
NGINX = "nginx with open_file_cache"
NAMES = (CORELANE, NGINX, f"{NGINX}, no sendfile", "nginx", "tower-http", "actix-files")

CONFIGURATION = """\
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  types {{ text/html html; text/plain txt; }}
  charset utf-8;
  sendfile {sendfile};
  tcp_nopush {sendfile};
  {cache}
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {address} backlog=4096;
    root {site};
  }}
}}
"""

CACHE = "open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s;"
"""Looks at the disk again after the time in which Corelane does."""


@dataclass(frozen=True)
class Programs:
    """Where everything that runs is."""

    server: Path
    nginx: Path
    peers: Path
    """The folder of the generator and the other file servers."""

    @property
    def generator(self) -> Path:
        """The load generator."""
        return self.peers / "load-generator"


@dataclass(frozen=True)
class FileServer:
    """A server with one thread that serves /hello and /static/."""

    name: str

    def argv(self, programs: Programs, address: str, folder: Path) -> list[str]:
        """How it is started."""
        site = folder / "site"
        shutil.copytree(STATIC, site / "static")
        (site / "hello").write_bytes(servers.HELLO)
        if self.name == CORELANE:
            argv = servers.corelane(programs.server, address, 1, "")
            return [*argv, "--static.root", str(site / "static")]
        if self.name.startswith("nginx"):
            file = folder / "nginx.conf"
            file.write_text(self._nginx(address, folder, site))
            return [str(programs.nginx), "-p", str(folder), "-c", str(file)]
        program = programs.peers / self.name.replace("-", "_")
        return [str(program), "--listen", address, "--root", str(site)]

    def _nginx(self, address: str, folder: Path, site: Path) -> str:
        return CONFIGURATION.format(
            address=address,
            # As root nginx would become nobody, who may not look into the folder.
            user=getpass.getuser(),
            folder=folder,
            site=site,
            cache=CACHE if NGINX in self.name else "",
            sendfile="off" if "no sendfile" in self.name else "on",
        )
