"""The command lines of the replicas."""

from pathlib import Path

from dashboards.live.options import Options, Plan
from local import commands, render
from local.topology import Replica
from stack import HOST
from stack.postgres import Postgres
from stack.replica import command, with_flags


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
    ports = replica.port, replica.admin_port
    flags = [
        *("--lanes", "2", "--placement", "least-loaded"),
        *("--tls.certificate", run / "tls.crt", "--tls.key", run / "tls.key", "--tls.reload", "1s"),
        *server.flags(),
        *("--drain.settle", "1s", "--drain.deadline", "15s", "--log.format", "json"),
        *_common(plan, run),
    ]
    argv = command(program, replica.name, ports, *flags)
    return with_flags(argv, _chosen(options, replica.name))


def _common(plan: Plan, run: Path) -> list[str]:
    spans = ["--otlp.endpoint", f"http://{HOST}:{plan.collector}"]
    return ["--auth.tokens", str(render.hashed_token(run)), *spans, "--faults", "on"]


def _chosen(options: Options, name: str) -> list[str]:
    return [*options.servers.get(name, ())]
