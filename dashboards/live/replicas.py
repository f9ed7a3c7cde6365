"""The command lines of the replicas, and their admin port."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dashboards.live.options import Options, Plan
from local import commands, render
from local.settings import REPOSITORY
from local.topology import HOST, Replica
from stack.http import ask
from stack.postgres import Postgres
from stack.process import Process
from tools.errors import ToolError


def with_flags(argv: Sequence[object], more: Sequence[object]) -> list[str]:
    """A command line with more flags, each with its value; the server rejects duplicates."""
    words = [str(word) for word in argv]
    for flag, value in zip(more[::2], more[1::2], strict=True):
        if flag in words:
            words[words.index(flag) + 1] = str(value)
        else:
            words += [str(flag), str(value)]
    return words


class Server(Process):
    """A replica."""

    def __init__(self, replica: Replica, address: str, secure: bool, *rest: object) -> None:
        super().__init__(replica.name, *rest)
        self.replica = replica
        self.url = f"{'https' if secure else 'http'}://{address}:{replica.port}"
        self.admin = f"http://{HOST}:{replica.admin_port}"

    def start(self, *more: object, wait: bool = True) -> None:
        """Starts it, this time with more flags."""
        usual = self.argv
        self.argv = with_flags(usual, more)
        try:
            super().start(wait=wait)
        finally:
            self.argv = usual

    def faults(self, *faults: dict) -> None:
        """Replaces all injected faults (docs/faults.md); without arguments it clears them."""
        if not faults:
            reply = ask(self.admin, "/faults", "DELETE")
        else:
            body = json.dumps({"seed": 7, "faults": faults}).encode()
            reply = ask(self.admin, "/faults", "PUT", body=body)
        if reply.status not in (200, 204):
            raise ToolError(f"{self.name} rejects faults: {reply.status} {reply.body.decode()}")


def gated(replica: Replica, plan: Plan, options: Options, program: Path, run: Path) -> list[str]:
    """A replica behind the gateway: one pinned lane, and the SQLite file that all share."""
    own = ["--database.path", str(run / "projects.db"), *_common(plan, run)]
    argv = commands.server(replica, plan.topology.pinned, program, own)
    # An EndpointSlice may not hold a loopback address.
    own = ["--listen", f"0.0.0.0:{replica.port}", "--admin.listen", f"0.0.0.0:{replica.admin_port}"]
    return with_flags(argv, [*own, *_chosen(options, replica.name)])


def edge(plan: Plan, options: Options, program: Path, run: Path, server: Postgres) -> list[object]:
    """The replica for direct clients: TLS, two lanes that an acceptor fills, PostgreSQL."""
    replica = plan.edge
    argv = [
        program,
        *("--replica", replica.name),
        *("--listen", f"{HOST}:{replica.port}"),
        *("--admin.listen", f"{HOST}:{replica.admin_port}"),
        *("--lanes", "2", "--placement", "least-loaded"),
        *("--static.root", REPOSITORY / "services" / "server" / "static"),
        *("--tls.certificate", run / "tls.crt", "--tls.key", run / "tls.key", "--tls.reload", "1s"),
        *server.flags(),
        *("--drain.settle", "1s", "--drain.deadline", "15s", "--log.format", "json"),
        *_common(plan, run),
    ]
    return with_flags(argv, _chosen(options, replica.name))


def _common(plan: Plan, run: Path) -> list[str]:
    spans = ["--otlp.endpoint", f"http://{HOST}:{plan.collector}"]
    return ["--auth.tokens", str(render.hashed_token(run)), *spans, "--faults", "on"]


def _chosen(options: Options, name: str) -> list[str]:
    return [*options.servers.get(name, ())]


def certificate(openssl: Path, run: Path, days: int = 30) -> None:
    """A self-signed certificate for `localhost`; a new one replaces the one before in one step."""
    files = run / "tls.crt", run / "tls.key"
    fresh = [file.with_suffix(f"{file.suffix}.new") for file in files]
    argv = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-noenc", "-days", str(days), "-subj", "/CN=localhost"]
    argv += ["-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"]
    argv += ["-out", fresh[0], "-keyout", fresh[1]]
    subprocess.run(argv, check=True, capture_output=True)
    for new, file in zip(fresh, files, strict=True):
        new.rename(file)
