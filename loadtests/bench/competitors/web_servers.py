"""Web servers: nginx, and Apache with its event MPM."""

import getpass
import os
import shutil
from pathlib import Path

from loadtests.bench.competitors.competitor import CONNECTIONS as GROWING
from loadtests.bench.competitors.competitor import (
    FILES,
    PLAIN,
    Competitor,
    Start,
)
from loadtests.bench.experiment.servers import CONNECTIONS, STATIC
from loadtests.bench.experiment.servers import HELLO as GREETING
from stack.postgres_home import account
from tools import resolve, table, versions
from tools.errors import ToolError

NGINX = """\
daemon off;
user {user};
worker_processes {threads};
worker_rlimit_nofile {files};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  types {{ text/html html; text/plain txt; }}
  charset utf-8;
  sendfile on;
  tcp_nopush on;
  open_file_cache max=1000 inactive=60s;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen {listen};
    {more}
    location = /hello {{ default_type text/plain; return 200 "Hello, World!"; }}
    location /static/ {{ alias {static}/; }}
  }}
}}
"""
"""keepalive_requests: nginx closes a connection after 1,000 requests by default."""

NGINX_SETTINGS = (
    "one worker per CPU; sendfile, tcp_nopush and backlog 4096 (docs.nginx.com, Serve Static "
    "Content); open_file_cache, reuseport and unlimited keep-alive (nginx.org, "
    "ngx_http_core_module); 12,000 connections; no access log. /hello is `return 200`; there is "
    "no /work"
)

APACHE = """\
ServerRoot {folder}
ServerName localhost
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen {address}
ListenBacklog 4096
AcceptFilter http none
User #{user}
Group #{group}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule file_cache_module {modules}/mod_file_cache.so
LoadModule mime_module {modules}/mod_mime.so
StartServers {processes}
ServerLimit {processes}
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {workers}
MinSpareThreads 1
MaxSpareThreads {workers}
AsyncRequestWorkerFactor {factor}
MaxConnectionsPerChild 0
KeepAlive On
KeepAliveTimeout 75
MaxKeepAliveRequests 0
EnableSendfile On
TypesConfig /dev/null
AddType text/html .html
AddType text/plain .txt
AddDefaultCharset utf-8
DirectoryIndex index.html
DocumentRoot {site}
MMapFile {mapped}
<Directory />
  Options FollowSymLinks
  AllowOverride None
  Require all granted
</Directory>
<Files hello>
  ForceType text/plain
</Files>
"""
"""AcceptFilter: by default the kernel keeps a connection until its request has arrived (tcp(7),
TCP_DEFER_ACCEPT). With 10,000 simultaneous connections the accept queue overflowed, every thread
held a connection without a request, and ab stalled for half a minute.
"""

PROCESSES = 2
THREADS = 128

APACHE_SETTINGS = (
    "event MPM; unlimited keep-alive (MaxKeepAliveRequests 0, 75 s); EnableSendfile on, "
    "AllowOverride None, FollowSymLinks, HostnameLookups off (httpd.apache.org, Performance "
    "Tuning). Files are mapped at startup (MMapFile of mod_file_cache, Caching Guide): a "
    "quarter cheaper per request, but changed files need a restart. No access log, backlog "
    "4096. AcceptFilter http none, because deferred accept fails with 10,000 simultaneous "
    f"connections. {PROCESSES} processes of {THREADS} threads per CPU; AsyncRequestWorkerFactor "
    "allows 12,000 connections ((factor + 1) × MaxRequestWorkers, page on the event MPM). Only "
    "modules for files are loaded; /hello is a file; there is no /work"
)


def _obtain(name: str) -> Path:
    return resolve.ensure([name])[name]


def _itself(program: Path) -> Path:
    """Returns the program itself, from the script that starts the unpacked one."""
    unpacked = program.parent.parent / "usr" / "sbin" / program.name
    return unpacked if unpacked.is_file() else program


def nginx(
    program: Path,
    folder: Path,
    listen: str,
    *,
    threads: int = 1,
    connections: int = CONNECTIONS,
    more: str = "",
) -> list[str]:
    """nginx's command with this many workers; `more` is part of its server block."""
    file = folder / "nginx.conf"
    text = NGINX.format(
        connections=connections,
        files=2 * connections,
        folder=folder,
        listen=listen,
        more=more,
        static=STATIC,
        threads=threads,
        # When started as root, nginx would switch to the `nobody` user, which cannot enter the
        # folder.
        user=getpass.getuser(),
    )
    file.write_text(text)
    return [str(_itself(program)), "-p", str(folder), "-c", str(file)]


def _argv_nginx(program: Path, start: Start) -> list[str]:
    listen = f"{start.address} backlog=4096 reuseport"
    return nginx(program, start.folder, listen, threads=start.threads)


def _argv_apache(program: Path, start: Start) -> list[str]:
    # When started as root, Apache serves as another user, who must be able to read the files.
    owner = account()
    site = start.folder / "site"
    shutil.copytree(start.static, site / "static")
    (site / "hello").write_bytes(GREETING)
    if owner.other:
        os.chmod(start.folder, 0o755)
    processes = PROCESSES * start.threads
    workers = processes * THREADS
    text = APACHE.format(
        address=start.address,
        factor=CONNECTIONS // workers,
        folder=start.folder,
        group=owner.gid,
        mapped=" ".join(str(file) for file in sorted(site.rglob("*")) if file.is_file()),
        modules=_modules(program),
        processes=processes,
        site=site,
        threads=THREADS,
        user=owner.uid,
        workers=workers,
    )
    file = start.folder / "apache.conf"
    file.write_text(text)
    return [str(program), "-DFOREGROUND", "-f", str(file)]


def _modules(program: Path) -> Path:
    places = [program.parent.parent / "usr/lib/apache2/modules", Path("/usr/lib/apache2/modules")]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise ToolError(f"{program} has no modules in {' or '.join(map(str, places))}")
    return found


def _version(program: Path) -> str:
    return versions.remembered(program, table.find(program.name)) or "unknown"


WEB_SERVERS = [
    Competitor(
        name="nginx",
        family="web server",
        parts=PLAIN | {*FILES, GROWING},
        settings=NGINX_SETTINGS,
        build=lambda _profile: _obtain("nginx"),
        argv=_argv_nginx,
        version=_version,
    ),
    Competitor(
        name="apache",
        family="web server",
        parts=PLAIN | {*FILES, GROWING},
        settings=APACHE_SETTINGS,
        build=lambda _profile: _obtain("apache2"),
        argv=_argv_apache,
        version=_version,
    ),
]
