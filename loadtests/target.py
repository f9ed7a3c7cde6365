"""Finds the target of the load: the gateway, its replicas, the token and Prometheus."""

import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from loadtests import record
from local import processes, render, settings, topology
from tools.errors import ToolError

DEADLINE = 10.0
"""Seconds for all replicas behind GATEWAY_URL to answer."""

ASKED = 20
"""Requests that discover the replicas if their number is unknown."""


@dataclass(frozen=True)
class Target:
    gateway: str
    replicas: tuple[str, ...]
    direct: str = ""
    """The first replica's address, without the gateway."""
    token: str = field(default="", repr=False)
    prometheus: str = ""

    def environment(self) -> dict[str, str]:
        """Returns the environment of a scenario; on a command line, other users would see the token."""
        told = {
            "BASE_URL": self.gateway,
            "DIRECT_URL": self.direct,
            "REPLICA_NAMES": ",".join(self.replicas),
            "TOKEN": self.token,
        }
        return {name: value for name, value in told.items() if value}

    def asked(self, via: str) -> record.Target:
        """Returns the target of a run's requests: a replica (`direct`) or the `gateway`."""
        if via == "direct":
            return record.Target(self.direct, via, list(self.replicas[:1]))
        return record.Target(self.gateway, via, list(self.replicas))


def find() -> Target:
    url = os.environ.get("GATEWAY_URL", "").rstrip("/")
    if url:
        return Target(
            url,
            _ask_for_names(url, _expected()),
            direct=os.environ.get("DIRECT_URL", "").rstrip("/"),
            token=_token(),
            prometheus=os.environ.get("PROMETHEUS_URL", "").rstrip("/"),
        )
    run = settings.run_folder()
    running = topology.read(run)
    if running is None or not processes.find(run):
        raise ToolError(
            f"no gateway: nothing is up (instance {run.name}). "
            "Run make up first, or set GATEWAY_URL to the address of a gateway"
        )
    return Target(
        _local(running.gateway_port),
        tuple(replica.name for replica in running.replicas),
        direct=_local(running.replicas[0].port),
        # Without a database, there are no projects to write.
        token="" if running.database == "none" else _read(render.clear_token(run)),
        prometheus=_local(running.prometheus_port),
    )


def _local(port: int) -> str:
    return f"http://{topology.HOST}:{port}"


def _token() -> str:
    file = os.environ.get("TOKEN_FILE", "")
    return os.environ.get("TOKEN", "") or (_read(Path(file)) if file else "")


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ToolError(f"the token cannot be read: {file}: {error.strerror}") from None


def _expected() -> int | None:
    text = os.environ.get("REPLICAS", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ToolError(f"REPLICAS={text}: give the number of replicas behind GATEWAY_URL")
    return int(text)


def _ask_for_names(url: str, expected: int | None) -> tuple[str, ...]:
    """Sends requests on new connections until every expected replica has answered."""
    names: set[str] = set()
    asked = 0
    deadline = time.monotonic() + DEADLINE
    while (asked < ASKED) if expected is None else (len(names) < expected):
        if time.monotonic() > deadline:
            raise ToolError(
                f"GATEWAY_URL={url}: {len(names)} of {expected or 'its'} replicas answered within "
                f"{DEADLINE:.0f} s ({', '.join(sorted(names))}): start the others or correct REPLICAS"
            )
        names.add(_answering(url))
        asked += 1
    return tuple(sorted(names))


def _answering(url: str) -> str:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/", timeout=5) as reply:
            name = reply.headers["corelane-replica"]
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ToolError(
            f"GATEWAY_URL={url} does not answer ({reason}): start it, or correct the address"
        ) from None
    if not name:
        raise ToolError(
            f"GATEWAY_URL={url} answers without the header corelane-replica: it is no Corelane"
        )
    return name
