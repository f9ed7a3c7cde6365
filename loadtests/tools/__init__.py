"""The tests of the five systems with the tools that they were first run with: S0 and S1 with ab, S4 with vegeta.

S2 and S3 had clients of their own; the benchmarks `threads`, `mixed` and `connections` have their patterns.
"""

from collections.abc import Callable
from pathlib import Path

from loadtests.record import Run
from loadtests.target import Target
from loadtests.tools import ab, vegeta
from loadtests.tools.outcome import Job, Outcome, record
from loadtests.usage import UsageError

_TESTS: dict[tuple[str, str], Callable[[Job], Outcome]] = {
    ("s0-direct-vs-gateway", "ab"): ab.direct_and_gateway,
    ("s1-c10k-static", "ab"): ab.ten_thousand,
    ("s4-keepalive-div", "vegeta"): vegeta.full_rate,
}

TOOLS: dict[str, tuple[str, ...]] = {scenario: (tool,) for scenario, tool in _TESTS}
"""The tools of each scenario that has one in addition to k6."""


def run(tool: str, scenario: str, target: Target, settings: dict[str, object], folder: Path) -> Run:
    """Runs the test of a scenario with another tool than k6."""
    if (scenario, tool) not in _TESTS:
        known = ", ".join(f"{each} has {name}" for each, name in _TESTS)
        raise UsageError(f"{scenario} has no test with {tool}: {known}")
    if unused := sorted(set(settings) - {"vus", "duration"}):
        raise UsageError(f"--{unused[0]}: {tool} asks again when it was answered, at no given rate")
    return record(_TESTS[scenario, tool], scenario, tool, Job(target, settings, folder))
