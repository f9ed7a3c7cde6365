"""What is in each image: the one place that says so."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from images import elf, envoy, layer, rust
from images.archive import Layered
from images.layer import Entry, File
from images.platforms import Platform
from images.stamp import REPOSITORY
from tools import gomodule, table
from tools.errors import ToolError
from tools.table import Tool

PINNED = 0
"""Time of files that are not made from the commit: their layer stays the same over releases, so
nodes and registries that have it need not load it again."""

LOADTESTS = REPOSITORY / "loadtests"

DISCOVERIES = "enable_kubernetes_sd,enable_dns_sd"
"""How Prometheus finds its targets in a cluster; the local platform needs neither."""

PASSWD = b"root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n"
GROUP = b"root:x:0:\nnonroot:x:65532:\n"


@dataclass(frozen=True)
class Content:
    """The layers of an image, lowest first, and labels that say what is in them."""

    layers: list[Layered]
    labels: dict[str, str]


@dataclass(frozen=True)
class Definition:
    """An image that can be built."""

    name: str
    image: str
    description: str
    licenses: str
    entrypoint: str
    ports: tuple[int, ...]
    content: Callable[[Platform, Path], Content]
    """Makes the content; files may be written into the folder."""


def _server(platform: Platform, _folder: Path) -> Content:
    static = REPOSITORY / "services" / "server" / "static"
    own = [
        *_base(),
        _rust("corelane-server", platform),
        _rust("corelane", platform, "corelane-cli"),
        # For the chart's static.root: the pages of the load tests.
        *(File(f"/static/{file.name}", file) for file in static.iterdir()),
    ]
    return Content([Layered(own)], {})


def _gateway(platform: Platform, folder: Path) -> Content:
    pinned, labels = envoy.content(platform, folder)
    own = [*_base(), _rust("corelane", platform, "corelane-cli"), _rust("gateway-agent", platform)]
    return Content([Layered(pinned, PINNED), Layered(own)], labels)


def _node_tuner(platform: Platform, _folder: Path) -> Content:
    return Content([Layered([*_base(), _rust("node-tuner", platform)])], {})


def _prometheus(platform: Platform, _folder: Path) -> Content:
    tool = table.find("prometheus")
    tool = replace(tool, go=replace(tool.go, tags=f"{tool.go.tags},{DISCOVERIES}"))
    pinned = [*_base(), _go("/prometheus", tool, platform)]
    version = tool.go.ldflags.rpartition("=")[2]
    return Content([Layered(pinned, PINNED)], {"corelane.prometheus.version": version})


def _alertmanager(platform: Platform, _folder: Path) -> Content:
    tool = table.find("alertmanager")
    pinned = [*_base(), _go("/alertmanager", tool, platform)]
    version = tool.go.ldflags.rpartition("=")[2]
    return Content([Layered(pinned, PINNED)], {"corelane.alertmanager.version": version})


def _k6(platform: Platform, _folder: Path) -> Content:
    pinned = [*_base(), _go("/k6", table.find("k6"), platform)]
    scripts = [
        File(f"/loadtests/{file.relative_to(LOADTESTS)}", file)
        for folder in ("lib", "scenarios")
        for file in sorted((LOADTESTS / folder).glob("*.js"))
    ]
    return Content([Layered(pinned, PINNED), Layered(scripts)], {})


def _base() -> list[Entry]:
    """What every image has: a user with a name, and the licence."""
    return [
        File("/etc/passwd", PASSWD),
        File("/etc/group", GROUP),
        File("/usr/share/doc/corelane/LICENSE", REPOSITORY / "LICENSE"),
    ]


def _go(path: str, tool: Tool, platform: Platform) -> File:
    """A tool that is built from its Go module; it needs no library of an image."""
    program = gomodule.build_for(tool, platform.arch)
    found = elf.read(program)
    if found.machine != platform.machine or found.interpreter:
        raise ToolError(f"{program} should be static for {platform.machine}; it is {found}")
    return layer.program(path, program)


def _rust(program: str, platform: Platform, package: str = "") -> File:
    """A program of the workspace `services`; its package has the same name unless another is given."""
    return layer.program(f"/{program}", rust.build(package or program, program, platform))


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
        ),
        Definition(
            name="gateway",
            image="corelane-gateway",
            description="Envoy, the gateway of Corelane, with its agent",
            licenses="Apache-2.0 AND LGPL-2.1-or-later",
            entrypoint="/envoy",
            ports=(8080, 9902),
            content=_gateway,
        ),
        Definition(
            name="node-tuner",
            image="corelane-node-tuner",
            description="Agent of Corelane that audits and prepares a node",
            licenses="Apache-2.0",
            entrypoint="/node-tuner",
            ports=(9905,),
            content=_node_tuner,
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


def find(name: str) -> Definition:
    """The definition of that name."""
    if name not in DEFINITIONS:
        raise ToolError(f"no image is called {name!r}; there are: {', '.join(DEFINITIONS)}")
    return DEFINITIONS[name]
