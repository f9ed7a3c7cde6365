"""The part `scaling` of `bench field`: cores, connections, routes and pods."""

from collections.abc import Sequence

from loadtests.bench.experiment import builds
from loadtests.bench.field.bench import Bench, Plan
from loadtests.bench.field.contender import Contender
from loadtests.bench.field.scaling import connections, cores, pods, routes
from loadtests.bench.field.scaling.plan import sizes
from loadtests.bench.field.scaling.routers import Programs
from tools import resolve

TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")
PROGRAMS = ("floor", "routes")


def prepare(profile: str) -> None:
    """Builds and obtains what it needs."""
    # One after the other: together they would be built with the features of both.
    for package in PROGRAMS:
        builds.build(builds.BENCH, [package], profile)
    resolve.ensure(TOOLS)


def seconds(plan: Plan, _contenders: Sequence[Contender]) -> float:
    """The longest that `measure` takes, but for a first round that is slower than planned."""
    return sum(sizes(plan).budget.values())


def measure(bench: Bench, plan: Plan) -> dict:
    """What stands in bench.json as `scaling`."""
    chosen, tools = sizes(plan), resolve.ensure(TOOLS)
    routers = Programs(bench.generator.parent, tools["nginx"])
    return {
        "cores": cores.measure(bench, chosen),
        "connections": connections.measure(bench, chosen),
        "routes": routes.measure(bench, chosen, routers),
        "pods": pods.measure(bench, chosen, tools),
    }
