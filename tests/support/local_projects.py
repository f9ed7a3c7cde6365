"""Projects that tests run with the `corelane` command, and a program that does not use the library."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from local.settings import VARIABLES
from stack import REPOSITORY, eventually
from stack.http import ask
from stack.ports import free_ports
from stack.programs import program

TARGET = REPOSITORY / "services" / os.environ.get("CARGO_TARGET_DIR", "target")

BUILDING = 600.0
"""Timeout in seconds for building a service and its dependencies."""

OTHER = """#!{python}
import http.server, os, signal, sys, threading
{first}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # Head and body leave in one write, so an exit cuts no reply in two.
    def do_GET(self):
        body = b"{word} " + repr(sorted(key for key in os.environ if "CORELANE" in key)).encode()
        self.send_response(200 if self.path in ("/", "/up") else 404)
        self.send_header("content-length", str(len(body)))
        self.send_header("corelane-replica", os.environ["HOSTNAME"])
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
"""


LINTS = {"RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"}
"""The Makefile sets these to turn warnings into errors."""


@dataclass
class Project:
    """A service's folder and its platform's ports."""

    folder: Path
    environment: dict[str, str]

    @property
    def run(self) -> Path:
        return self.folder / ".corelane" / "default"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.environment['GATEWAY_PORT']}"

    def begin(self, *arguments: object, **more: object) -> subprocess.Popen[str]:
        readers = {name: text for name, text in os.environ.items() if name not in LINTS}
        return subprocess.Popen(
            [*map(str, arguments)],
            cwd=self.folder,
            env={**readers, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **more,
        )

    def command(self, *arguments: object) -> tuple[int, str]:
        with self.begin(*arguments) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def corelane(self, *arguments: object) -> str:
        status, output = self.command(program("corelane"), *arguments)
        assert status == 0, output
        return output

    def replicas(self) -> set[str | None]:
        return {ask(self.gateway).replica for _ in range(20)}


def project(folder: Path, replicas: int = 2) -> Project:
    """`replicas` is the number for all services."""
    first = free_ports(5 + 2 * replicas)
    names = [*VARIABLES][:-2]
    variables = {name: str(first + index) for index, name in enumerate(names)}
    variables |= {
        "REPLICA_PORT": str(first + 5),
        "REPLICA_ADMIN_PORT": str(first + 5 + replicas),
    }
    variables |= {"REPLICAS": "2", "CARGO_TARGET_DIR": str(TARGET)}
    # Uses this repository's profile, so that dependencies are built only once.
    variables["CARGO_PROFILE_DEV_DEBUG"] = "0"
    return Project(folder, variables)


def write(file: Path, word: str, first: str = "") -> None:
    """Replaces the file atomically, as a compiler does."""
    fresh = file.with_suffix(".new")
    text = OTHER.replace("{python}", sys.executable).replace("{word}", word)
    fresh.write_text(text.replace("{first}", first))
    fresh.chmod(0o755)
    fresh.rename(file)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Reads output up to a line that contains the text."""
    for line in process.stdout:
        if text in line:
            return
        assert "keeps running" not in line, line
    raise AssertionError(f"it ended without {text!r}")


def bodies(made: Project, wanted: set[bytes]) -> None:
    """Waits until all replicas run the new build."""
    eventually(
        lambda: {ask(made.gateway).body for _ in range(20)} == wanted,
        f"replies {wanted}",
        patience=BUILDING,
        pause=0.2,
    )
