"""Settings from the environment, with their defaults."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent

VARIABLES = {
    "GATEWAY_PORT": 8080,
    "ENVOY_ADMIN_PORT": 9901,
    "GATEWAY_STATS_PORT": 9902,
    "PROMETHEUS_PORT": 9090,
    "REPLICA_PORT": 8100,
    "REPLICA_ADMIN_PORT": 8200,
}
"""The ports by the variable that sets them; the last two are those of the first replica."""


PROFILES = ("local", "release", "dev", "image")
"""Cargo's profiles for the server; the first is the default."""

POSTGRES_PORT = 5433
"""Different from the port of a system PostgreSQL."""

DATABASES = ("sqlite", "postgres", "none")
"""Storage of projects; the first is the default."""


@dataclass(frozen=True)
class Settings:
    """Replicas, CPUs and ports of one instance of the platform."""

    replicas: int
    cpus: tuple[int, ...]
    ports: dict[str, int]
    database: str = DATABASES[0]

    @property
    def pinned(self) -> bool:
        """Whether every replica has a CPU that no other replica has."""
        return self.replicas <= len(self.cpus)


def run_folder() -> Path:
    """Where the instance keeps its files."""
    instance = os.environ.get("INSTANCE") or "default"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", instance):
        raise ToolError(f"INSTANCE={instance}: use letters, digits, - and _ only")
    return REPOSITORY / ".run" / instance


def load() -> Settings:
    """The settings. Replicas get the CPUs that this process may use."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    return Settings(
        replicas=number("REPLICAS", len(cpus), 1, 1000),
        cpus=cpus,
        ports={
            name: number(name, default, 1, 65535)
            for name, default in {**VARIABLES, "POSTGRES_PORT": POSTGRES_PORT}.items()
        },
        database=_database(),
    )


def profile() -> str:
    """The cargo profile that builds the server."""
    name = os.environ.get("PROFILE") or PROFILES[0]
    if name not in PROFILES:
        raise ToolError(f"PROFILE={name}: use one of {', '.join(PROFILES)}")
    return name


def _database() -> str:
    kind = os.environ.get("DATABASE") or DATABASES[0]
    if kind not in DATABASES:
        raise ToolError(
            f"DATABASE={kind}: use sqlite (a file that all replicas share), postgres (started "
            "with them) or none"
        )
    return kind


def number(name: str, default: int, least: int, most: int) -> int:
    """A whole number that the environment may set."""
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ToolError(f"{name}={text}: use a whole number from {least} to {most}")
    return int(text)
