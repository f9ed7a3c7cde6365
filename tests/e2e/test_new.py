"""docs/own-service.md, command by command, and how the platform treats such a service."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.live import boards
from dashboards.live.check import wrong
from images import archive
from stack import REPOSITORY, eventually
from stack.http import ask
from stack.prometheus import Prometheus, Range
from support.kubernetes import PAUSE, ROLL_OUT
from support.releases import CHART, SERVICE, Release
from support.tutorials import Reader, answered, blocks, two_replicas

TARGET = REPOSITORY / "services" / os.environ.get("CARGO_TARGET_DIR", "target")
GATEWAY = "http://10.213.0.11:30080"

BUILDING = 900.0
"""Timeout in seconds for building a service and its dependencies."""

ROUTES = {"/", "/notes/{name}"}

IDLE = {
    "Drain duration",
    "Lane imbalance",
    "Lane imbalance by pod",
    "Predicted / measured capacity",
    "Replica imbalance",
    "Request rate and capacity",
}
"""Panels that are empty while lanes are idle and nothing drains."""

RECORDS = {
    "pod:corelane_requests:rate1m",
    "pod_lane:corelane_lane_busy:ratio_rate1m",
    "route_slo:corelane_slo_errors:rate5m",
    "route_slo:corelane_slo_latency_threshold:seconds",
    "route_slo:corelane_slo_objective:ratio",
    "route_slo:corelane_slo_requests:rate5m",
    "service_slo:corelane_slo_latency_threshold:seconds",
    "service_slo:corelane_slo_objective:ratio",
}


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """A fixed home folder, so that cargo reuses its build."""
    home = TARGET / "new" / "home"
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    real = Path.home()
    environment = {
        **os.environ,
        **two_replicas(),
        "HOME": str(home),
        "PWD": str(REPOSITORY),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "CARGO_INSTALL_ROOT": str(home),
        "CARGO_TARGET_DIR": str(TARGET),
    }
    # Readers already have tools and earlier builds.
    for name, folder in {
        "CARGO_HOME": ".cargo",
        "RUSTUP_HOME": ".rustup",
        "XDG_CACHE_HOME": ".cache",
        "GOPATH": "go",
    }.items():
        environment.setdefault(name, str(real / folder))
    yield Reader(home, blocks("docs/own-service.md"), environment)


@pytest.fixture(scope="module")
def created(reader: Reader) -> Reader:
    """After section 1."""
    reader.types()
    # Dependencies are pinned to this repository's versions.
    shutil.copy(REPOSITORY / "services" / "Cargo.lock", reader.environment["PWD"])
    return reader


@pytest.fixture(scope="module")
def rolled(created: Reader) -> list[str]:
    """Responses that the loop in section 3 received."""
    reader = created
    try:
        with reader.elsewhere() as (said, up):
            eventually(
                lambda: up.poll() is not None or answers(reader.gateway),
                "a reply",
                patience=BUILDING,
                pause=0.2,
            )
            assert up.poll() is None, said.read_text()
            assert answered(reader.types()) == ({"shop-0", "shop-1"}, 20)
            with reader.elsewhere() as (replies, loop):
                eventually(lambda: "hello\n" in replies.read_text(), "a first reply")
                reader.types()
                eventually(
                    lambda: loop.poll() is not None or only(replies, "welcome"),
                    "the new text",
                    patience=BUILDING,
                    pause=0.2,
                )
                assert loop.poll() is None, replies.read_text()[-1000:]
    finally:
        down = reader.types()
    assert "is down" in down
    return replies.read_text().splitlines()


@pytest.fixture(scope="module")
def packed(created: Reader, rolled: list[str]) -> Reader:
    """After the image build."""
    del rolled
    created.types()
    return created


@pytest.fixture(scope="module")
def shop(packed: Reader, deployed: Release) -> Iterator[Release]:
    """After section 4."""
    reader = packed
    reader.types()
    reader.types()
    assert deployed.gateway == GATEWAY
    assert reader.types().endswith("hello\n")
    found = Release(deployed.cluster, "shop", [], chart=SERVICE)
    yield found
    found.helm("uninstall", "shop", "--wait", "--ignore-not-found")


def answers(url: str) -> bool:
    try:
        return ask(url).status == 200
    except OSError:
        return False


def only(replies: Path, text: str) -> bool:
    """Whether the last responses came from all replicas, and only from new programs."""
    return set(replies.read_text().splitlines()[-20:]) == {text}


@pytest.fixture(scope="module")
def prometheus(
    deployed: Release, shop: Release, monitoring_images: tuple[str, ...]
) -> Iterator[Prometheus]:
    """Prometheus with a two-second scrape interval and some load."""
    values = [
        "monitoring.enabled=true",
        "monitoring.scrape.interval=2s",
        "monitoring.scrape.timeout=2s",
    ]
    sets = [word for value in values for word in ("--set", value)]
    strings = [word for value in monitoring_images for word in ("--set-string", value)]
    more = ("--reset-then-reuse-values", "--wait", "--timeout", f"{ROLL_OUT:.0f}s")
    deployed.helm("upgrade", deployed.name, CHART, *more, *sets, *strings)
    pod = f"{deployed.name}-monitoring-prometheus-0"
    with (
        deployed.load(path="/", clients=2, rate=20.0),
        deployed.cluster.forwarded(pod, 9090) as url,
    ):
        yield Prometheus(url)


def test_it_is_created(created: Reader) -> None:
    assert (Path(created.environment["PWD"]) / "corelane.yaml").is_file()


def test_a_change_fails_no_request_on_this_machine(rolled: list[str]) -> None:
    print(f"\n{len(rolled)} requests, none failed", end="")
    assert set(rolled) == {"hello", "welcome"}


def test_its_image_has_the_program_alone(packed: Reader) -> None:
    (file,) = (Path(packed.environment["PWD"]) / ".corelane" / "images").glob("shop-*.tar")
    image = archive.read(file).image
    assert (image.name, image.tag, image.entrypoint) == ("shop", "0.1.0", ("/shop",))
    programs = [
        it.name for layer in archive.layers(file) for it in layer if it.mode & 0o111 and it.isfile()
    ]
    assert programs == ["shop"]


def test_a_roll_out_and_its_rollback_fail_no_request(
    deployed: Release, shop: Release, reader: Reader
) -> None:
    first = shop.pods()
    with deployed.load(path="/", rate=400.0) as load:
        reader.types()
        load.wait_for(max(0, 10_000 - load.total), patience=ROLL_OUT)
    print(f"\n{load.total} requests, {len(load.failures)} failed", end="")
    assert not load.failures, load.failures[:10]
    assert first | shop.pods() < set(load.replies)
    assert shop.revision == 3


def test_helm_test_passes_or_names_the_image_that_is_missing(
    deployed: Release, shop: Release
) -> None:
    """With the image from `make deploy`, as described in docs/another-language.md."""
    names = {"RELEASE": "shop", "NAMESPACE": deployed.cluster.namespace}

    def tested() -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, REPOSITORY / "hack" / "deploy", "test"]
        where = {**os.environ, **names}
        return subprocess.run(argv, env=where, capture_output=True, text=True, check=False)

    def upgrade(tag: str) -> None:
        chosen = ("--set", f"test.image.tag={tag},test.image.pullPolicy=Never")
        shop.helm("upgrade", "shop", SERVICE, "--reset-then-reuse-values", "--wait", *chosen)

    passed = tested()
    assert "Phase:          Succeeded" in passed.stdout, passed.stderr
    upgrade("0.0.0")
    failed = tested()
    assert failed.returncode == 1
    assert "corelane-cli:0.0.0 of pod" in failed.stderr
    # Removes the failed pod.
    upgrade("")
    assert tested().returncode == 0


def test_the_dashboards_show_it(deployed: Release, prometheus: Prometheus) -> None:
    """Runs every query for series that the service has; node and load-test dashboards do not apply."""
    chosen = {
        "namespace": deployed.cluster.namespace,
        "service": "shop",
        "gateway": f"{deployed.name}-gateway",
    }
    begun = time.time()
    selected = f'{{namespace="{chosen["namespace"]}", service="shop"}}'

    def over() -> Range:
        return Range(begun, time.time())

    def routes() -> set[str]:
        json = {"content-type": "application/json"}
        ask(deployed.gateway, "/notes/one", "PUT", body=b'{"text": "1"}', headers=json)
        series = f"route:corelane_requests:rate1m{selected}"
        return set(prometheus.label_values("route", series, over()))

    eventually(lambda: routes() >= ROUTES, f"the routes {ROUTES}", patience=ROLL_OUT, pause=PAUSE)
    own = set(prometheus.label_values("__name__", selected, over()))
    asked = 0
    for board in boards.load():
        values, _ = boards.choose(board, prometheus, over(), chosen)
        if values.get("service") != "shop":
            continue
        for panel in board.panels:
            for query in panel.queries:
                names = set(re.findall(r"\b(?:\w+:)?corelane_\w+(?::\w+)?", query.expression))
                elsewhere = re.search("/static/|kube_", query.expression) or panel.title in IDLE
                if not names or not names <= own or elsewhere:
                    continue
                asked += 1

                def empty(query: boards.Query = query, values: dict = values) -> str:
                    ask_for = prometheus.instant if query.instant else prometheus.range
                    return wrong(ask_for(boards.fill(query.expression, values), over()))

                what = f"{board.title} | {panel.title} | {query.expression}"
                eventually(lambda: not empty(), what, patience=ROLL_OUT, pause=PAUSE)
    print(f"\n{asked} queries of dashboards have data", end="")
    assert asked > 20


def test_its_objectives_are_recorded(deployed: Release, prometheus: Prometheus) -> None:
    """Alerts compare these objectives per service and route."""
    begun = time.time()
    selected = f'{{namespace="{deployed.cluster.namespace}", service="shop"}}'

    def recorded() -> set[str]:
        return set(prometheus.label_values("__name__", selected, Range(begun, time.time())))

    eventually(
        lambda: recorded() >= RECORDS, f"the records {RECORDS}", patience=ROLL_OUT, pause=PAUSE
    )
    routes = f"route_slo:corelane_slo_objective:ratio{selected}"
    assert set(prometheus.label_values("route", routes, Range(begun, time.time()))) >= ROUTES


def test_uninstalling_leaves_nothing_behind(
    deployed: Release, shop: Release, reader: Reader
) -> None:
    own = ("--selector", "app.kubernetes.io/instance=shop")
    assert deployed.cluster.leftovers(*own)
    reader.types()
    assert reader.blocks == []
    eventually(lambda: not deployed.cluster.leftovers(*own), "nothing", patience=ROLL_OUT)
    assert shop.revision == 0
