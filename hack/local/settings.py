"""Settings from the environment, with their defaults."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from local.service import REFERENCE, Service
from stack import REPOSITORY
from tools.errors import ToolError

VARIABLES = {
    "DASHBOARD_PORT": 8070,
    "GATEWAY_PORT": 8080,
    "ENVOY_ADMIN_PORT": 9901,
    "GATEWAY_STATS_PORT": 9902,
    "PROMETHEUS_PORT": 9090,
    "REPLICA_PORT": 8100,
    "REPLICA_ADMIN_PORT": 8200,
}
"""Default ports by the variable that sets them. The last two belong to the first replica."""


PROFILES = ("local", "release", "dev", "image")

POSTGRES_PORT = 5433

DATABASES = ("sqlite", "postgres", "none")
"""Storage options of the replicas. The reference server defaults to the first option, and other
services to the last.
"""


@dataclass(frozen=True)
class Settings:
    replicas: int
    cpus: tuple[int, ...]
    ports: dict[str, int]
    database: str = DATABASES[0]
    services: tuple[Service, ...] = (REFERENCE,)
    mtls: str = ""
    """Folder with the certificates for mutual TLS, if any."""

    @property
    def pinned(self) -> bool:
        return self.replicas * len(self.services) <= len(self.cpus)


FOLDER = ".corelane"


def run_folder(project: Path | None = None) -> Path:
    instance = os.environ.get("INSTANCE") or "default"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", instance):
        raise ToolError(f"INSTANCE={instance}: use letters, digits, - and _ only")
    run = project.resolve() / FOLDER / instance if project else REPOSITORY / ".run" / instance
    # Configuration files consist of lines in UTF-8.
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", str(run)):
        raise ToolError(
            f"{str(run)!r}: use a folder whose path is UTF-8 without control characters"
        )
    return run


def usage(run: Path, command: str) -> str:
    if run.parent.name == FOLDER:
        instance = "" if run.name == "default" else f"INSTANCE={run.name} "
        root = run.parent.parent
        manifest = root / "Cargo.toml"
        elsewhere = root != Path.cwd() and manifest.is_file()
        where = f" --manifest-path {shlex.quote(str(manifest))}" if elsewhere else ""
        return f"{instance}corelane {command}{where}"
    return f"make {command}" if run.name == "default" else f"make {command} INSTANCE={run.name}"


def load(services: tuple[Service, ...] = (REFERENCE,)) -> Settings:
    """Replicas get the CPUs that this process may use. `replicas` is the number for each service."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    return Settings(
        replicas=number("REPLICAS", max(1, len(cpus) // len(services)), 1, 1000),
        cpus=cpus,
        ports={
            name: number(name, default, 1, 65535)
            for name, default in {**VARIABLES, "POSTGRES_PORT": POSTGRES_PORT}.items()
        },
        database=_database(DATABASES[0] if services == (REFERENCE,) else DATABASES[-1]),
        services=services,
        mtls=_mtls(services),
    )


PARTS = ("gateway", "server")
"""Folders of the certificates for mutual TLS, each with the files of a Secret. Each certificate
names its part (`identity`).
"""


def identity(part: str) -> str:
    return f"spiffe://cluster.local/ns/local/sa/{part}"


def _mtls(services: tuple[Service, ...]) -> str:
    if not given("MTLS"):
        return ""
    folder = Path(os.environ["MTLS"]).absolute()
    files = [folder / part / name for part in PARTS for name in ("tls.crt", "tls.key", "ca.crt")]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise ToolError(
            f"MTLS={folder}: no {', '.join(missing)}: docs/mutual-tls.md shows how to create them"
        )
    if len(services) > 1 or not services[0].chassis:
        raise ToolError(f"MTLS={folder}: use one service, on the crate corelane-service")
    return str(folder)


def profile(service: Service = REFERENCE) -> str:
    ours = service == REFERENCE
    name = os.environ.get("PROFILE") or (PROFILES[0] if ours else "dev")
    if ours and name not in PROFILES:
        raise ToolError(f"PROFILE={name}: use one of {', '.join(PROFILES)}")
    return name


def _database(default: str) -> str:
    kind = os.environ.get("DATABASE") or default
    if kind not in DATABASES:
        raise ToolError(
            f"DATABASE={kind}: use sqlite (a file that all replicas share), postgres (started "
            "with them) or none"
        )
    return kind


def given(name: str) -> bool:
    return bool(os.environ.get(name))


def number(name: str, default: int, least: int, most: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ToolError(f"{name}={text}: use a whole number from {least} to {most}")
    return int(text)
