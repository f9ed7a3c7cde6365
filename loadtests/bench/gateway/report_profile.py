"""The report of `gateway --perf`: microseconds of each part of the work, and system calls."""

from loadtests.bench.gateway import report
from loadtests.bench.text import table

SMALLEST = 0.005
"""Shares below this one, and calls rarer than one in as many requests, are left out."""


def markdown(record: dict) -> str:
    """The whole report."""
    found = record["results"]
    costs = ", ".join(f"{name} {profile['cpu_us']:.1f} µs" for name, profile in found.items())
    return (
        "\n\n".join(
            [
                "# Where the CPU time of a request goes",
                (
                    "Written by `python3 loadtests/bench gateway --perf`: one run of each proxy in a closed "
                    f"loop, sampled by perf's cpu-clock. CPU per request meanwhile: {costs}."
                ),
                report.setting(record),
                "## Microseconds per request",
                _parts(found),
                (
                    "Envoy's release has no symbols. A sample counts for the nearest function on its stack whose "
                    "class is known by its table of virtual functions; `loadtests/bench/gateway/profile.py` says "
                    "which classes make a part. What other functions do is counted where they were called from. "
                    "The memory allocator is a section of the program, so it is exact. `kernel: other` is mostly "
                    "system calls at whose begin the stack ends, and interrupts."
                ),
                "## System calls per request",
                _calls(found),
                "Counted by strace, which slows everything: each look finds more work than without it.",
            ]
        )
        + "\n"
    )


def _parts(found: dict) -> str:
    parts = {part: None for profile in found.values() for part in profile["shares"]}
    lines = []
    for part in parts:
        shares = [profile["shares"].get(part, 0.0) for profile in found.values()]
        if max(shares) >= SMALLEST:
            costs = (p["cpu_us"] * share for p, share in zip(found.values(), shares, strict=True))
            lines.append([part, *(f"{cost:.2f}" if cost else "–" for cost in costs)])
    return table(["part", *found], lines)


def _calls(found: dict) -> str:
    calls = {call: None for profile in found.values() for call in profile["calls"]}
    lines = []
    for call in calls:
        counts = [profile["calls"].get(call, 0.0) for profile in found.values()]
        if max(counts) >= SMALLEST:
            lines.append([call, *(f"{count:.2f}" if count else "–" for count in counts)])
    return table(["call", *found], lines)
