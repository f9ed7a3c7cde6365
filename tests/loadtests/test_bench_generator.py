"""The load generator counts what the server counts."""

import os
from pathlib import Path

import pytest

from loadtests.bench.experiment import builds
from loadtests.bench.experiment import generator as load
from loadtests.bench.experiment.builds import Programs
from support.servers import Server

pytestmark = pytest.mark.nightly

CPU = min(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def programs(binary: Path) -> Programs:
    """The builds that need no framework, unoptimised: nothing here is about speed."""
    return builds.obtain({"floor"}, binary, "dev")


def total(server: Server, name: str, label: str = "") -> float:
    """The sum of a metric over its series that have this label."""
    series = server.metrics()
    found = [key for key in series if key.startswith(f"{name}{{") and label in key]
    return sum(series[key] for key in found)


def requests(server: Server, route: str) -> float:
    return total(server, "corelane_requests_total", f'route="{route}"')


def test_requests_are_counted_as_the_server_counts_them(programs: Programs, server: Server) -> None:
    address = server.url.removeprefix("http://")
    place = load.Place([CPU])
    options = {"connections": 8, "ops": 1000, "seconds": 0.5, "warm_up": 0.1}
    mix = {**options, "rate": 400, "seed": 7, "work_share": 0.5}
    for mode, chosen in (("closed", options), ("open", mix)):
        with load.Generator(programs.generator, place, mode, address, **chosen) as generator:
            before = {route: requests(server, route) for route in ("/hello", "/work")}
            result = generator.measure()
            after = {route: requests(server, route) for route in ("/hello", "/work")}
        assert result["wrong"] == 0
        assert result["requests"] == sum(result["lanes"].values()) > 0
        for route, kind in (("/hello", "hello"), ("/work", "work")):
            told = result["latency_us"].get(kind, {"count": 0})["count"]
            assert told == after[route] - before[route]


def test_some_requests_come_with_a_body_and_a_part_is_measured_again(
    programs: Programs, server: Server
) -> None:
    address = server.url.removeprefix("http://")
    options = {"connections": 8, "bodies": 3, "seconds": 0.1, "warm_up": 0.0}
    with load.Generator(
        programs.generator, load.Place([CPU]), "closed", address, **options
    ) as generator:
        for _ in range(2):
            before = requests(server, "/hello")
            result = generator.measure()
            assert result["wrong"] == 0 < result["requests"]
            assert requests(server, "/hello") - before == result["requests"]


def test_idle_connections_stay_open(programs: Programs, server: Server) -> None:
    address = server.url.removeprefix("http://")
    options = {"connections": 200}
    with load.Generator(
        programs.generator, load.Place([CPU]), "idle", address, **options
    ) as generator:
        assert generator.measure()["requests"] == 199
        assert total(server, "corelane_connections") == 200
