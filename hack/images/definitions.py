"""The content of each image."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from images import envoy, layer, platforms, rust
from images.archive import Layered
from images.layer import Entry, File
from images.platforms import Platform
from stack import REPOSITORY
from tools import gomodule, table
from tools.errors import ToolError
from tools.table import Tool

PINNED = 0
"""Modification time of files that do not depend on the commit, so that releases share their layer.
"""

LOADTESTS = REPOSITORY / "loadtests"

DISCOVERIES = "enable_kubernetes_sd,enable_dns_sd"
"""Build tags for Prometheus' service discovery in a cluster; the local platform does not need it.
"""

PASSWD = b"root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n"
GROUP = b"root:x:0:\nnonroot:x:65532:\n"
USERS = (File("/etc/passwd", PASSWD), File("/etc/group", GROUP))


@dataclass(frozen=True)
class Content:
    """An image's layers, lowest first, and labels that describe their content."""

    layers: list[Layered]
    labels: dict[str, str]


@dataclass(frozen=True)
class Target:
    platform: Platform
    folder: Path
    profile: str


@dataclass(frozen=True)
class Definition:
    name: str
    image: str
    description: str
    licenses: str
    entrypoint: str
    ports: tuple[int, ...]
    content: Callable[[Target], Content]
    programs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def _server(target: Target) -> Content:
    static = REPOSITORY / "services" / "server" / "static"
    # Files for static.root: the pages of the load tests.
    pages = [File(f"/static/{file.name}", file) for file in static.iterdir()]
    return Content([Layered([*base(), *_rust("server", target), *pages])], {})


def _gateway(target: Target) -> Content:
    pinned, labels = envoy.content(target.platform, target.folder)
    own = [*base(), *_rust("gateway", target)]
    return Content([Layered(pinned, PINNED), Layered(own)], labels)


def _cli(target: Target) -> Content:
    return Content([Layered([*base(), *_rust("cli", target)])], {})


def _node_tuner(target: Target) -> Content:
    return Content([Layered([*base(), *_rust("node-tuner", target)])], {})


def _mixed(target: Target) -> Content:
    # The features that other examples need, a database and an HTTP client, would double the build
    # time.
    only = ("--no-default-features",)
    program = rust.build("mixed", target.platform, target.profile, options=only)
    return Content([Layered([*base(), layer.program("/mixed", program)])], {})


def _calls(target: Target) -> Content:
    only = ("--no-default-features", "--features", "calls")
    programs = [
        layer.program(f"/{name}", rust.build(name, target.platform, target.profile, options=only))
        for name in ("cart", "orders")
    ]
    return Content([Layered([*base(), *programs])], {})


def _prometheus(target: Target) -> Content:
    tool = table.find("prometheus")
    tool = replace(tool, go=replace(tool.go, tags=f"{tool.go.tags},{DISCOVERIES}"))
    pinned = [*base(), _go("/prometheus", tool, target.platform)]
    return Content([Layered(pinned, PINNED)], {})


def _alertmanager(target: Target) -> Content:
    tool = table.find("alertmanager")
    pinned = [*base(), _go("/alertmanager", tool, target.platform)]
    return Content([Layered(pinned, PINNED)], {})


def _k6(target: Target) -> Content:
    tool = table.find("k6")
    pinned = [*base(), _go("/k6", tool, target.platform)]
    scripts = [
        File(f"/loadtests/{file.relative_to(LOADTESTS)}", file)
        for folder in ("lib", "scenarios")
        for file in sorted((LOADTESTS / folder).glob("*.js"))
    ]
    return Content([Layered(pinned, PINNED), Layered(scripts)], {})


def base() -> list[Entry]:
    """Files of every image: a user with a name, and the licence."""
    return [*USERS, File("/usr/share/doc/corelane/LICENSE", REPOSITORY / "LICENSE")]


def _go(path: str, tool: Tool, platform: Platform) -> File:
    program = gomodule.build_for(tool, platform.arch)
    found = platforms.read(program)
    if found.machine != platform.machine or found.interpreter:
        raise ToolError(f"{program} should be static for {platform.machine}; it is {found}")
    return layer.program(path, program)


def _rust(image: str, target: Target) -> list[File]:
    programs = DEFINITIONS[image].programs
    others = [name for each in DEFINITIONS.values() for name in each.programs]
    return [
        layer.program(f"/{name}", rust.build(name, target.platform, target.profile, others))
        for name in programs
    ]


DEFINITIONS = {
    each.name: each
    for each in (
        Definition(
            name="server",
            image="corelane-server",
            description="Thread-per-core HTTP server of Corelane",
            licenses="Apache-2.0",
            entrypoint="/corelane-server",
            ports=(8080, 8081),
            content=_server,
            programs=("corelane-server",),
        ),
        Definition(
            name="gateway",
            image="corelane-gateway",
            description="Envoy, the gateway of Corelane, with its agent",
            licenses="Apache-2.0 AND LGPL-2.1-or-later",
            entrypoint="/envoy",
            ports=(8080, 9902),
            content=_gateway,
            programs=("gateway-agent",),
        ),
        Definition(
            name="cli",
            image="corelane-cli",
            description="Command line of Corelane, for helm test",
            licenses="Apache-2.0",
            entrypoint="/corelane",
            ports=(),
            content=_cli,
            programs=("corelane",),
        ),
        Definition(
            name="node-tuner",
            image="corelane-node-tuner",
            description="Agent of Corelane that audits and prepares a node",
            licenses="Apache-2.0",
            entrypoint="/node-tuner",
            ports=(9905,),
            content=_node_tuner,
            programs=("node-tuner",),
        ),
        Definition(
            name="prometheus",
            image="corelane-prometheus",
            description="Prometheus for Corelane, with discovery by Kubernetes and DNS, without web pages",
            licenses="Apache-2.0",
            entrypoint="/prometheus",
            ports=(9090,),
            content=_prometheus,
        ),
        Definition(
            name="alertmanager",
            image="corelane-alertmanager",
            description="Alertmanager for Corelane",
            licenses="Apache-2.0",
            entrypoint="/alertmanager",
            ports=(9093,),
            content=_alertmanager,
        ),
        Definition(
            name="k6",
            image="corelane-k6",
            description="k6 with the load tests of Corelane, for tests inside a cluster",
            licenses="AGPL-3.0-only AND Apache-2.0",
            entrypoint="/k6",
            ports=(),
            content=_k6,
        ),
    )
}

TESTS = {
    "mixed": Definition(
        name="mixed",
        image="corelane-mixed",
        description="An example of a service on Corelane, for tests of the cluster",
        licenses="Apache-2.0",
        entrypoint="/mixed",
        ports=(8080, 8081),
        content=_mixed,
    ),
    "calls": Definition(
        name="calls",
        image="corelane-calls",
        description="Two examples of services that call one another, for tests of the cluster",
        licenses="Apache-2.0",
        entrypoint="/orders",
        ports=(8080, 8081),
        content=_calls,
    ),
}
"""Images that are not part of a release."""


def find(name: str) -> Definition:
    known = DEFINITIONS | TESTS
    if name not in known:
        raise ToolError(f"unknown image {name!r}: choose from {', '.join(known)}")
    return known[name]
