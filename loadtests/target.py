"""Finds the gateway to send load to, and the replicas behind it."""

import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

from local import processes, settings, topology
from tools.errors import ToolError

DEADLINE = 10.0
"""Seconds in which all replicas behind GATEWAY_URL must have answered."""

ASKED = 20
"""Requests by which the replicas are found when nothing says how many there are."""


@dataclass(frozen=True)
class Target:
    """A gateway and the names of its replicas."""

    gateway: str
    replicas: tuple[str, ...]


def find() -> Target:
    """The gateway of GATEWAY_URL, else that of the instance that is up."""
    url = os.environ.get("GATEWAY_URL", "").rstrip("/")
    if url:
        return Target(url, _ask_for_names(url, _expected()))
    run = settings.run_folder()
    running = topology.read(run)
    if running is None or not processes.find(run):
        raise ToolError(
            f"no gateway: nothing is up (instance {run.name}). "
            "Run make up first, or set GATEWAY_URL to the address of a gateway"
        )
    names = tuple(replica.name for replica in running.replicas)
    return Target(f"http://{topology.HOST}:{running.gateway_port}", names)


def _expected() -> int | None:
    text = os.environ.get("REPLICAS", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ToolError(f"REPLICAS={text}: give the number of replicas behind GATEWAY_URL")
    return int(text)


def _ask_for_names(url: str, expected: int | None) -> tuple[str, ...]:
    """Asks on new connections until every expected replica has answered."""
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
    """The name of the replica that answers one request."""
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
