"""The machine and the sources of a measurement."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from stack import REPOSITORY


def describe() -> dict[str, str | int]:
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release()}",
        "sources": _sources(),
    }


NOISE = 0.05
"""Cores that other processes may use before a record mentions them."""


def others(shares: list[float]) -> str:
    """A summary of how quiet the machine was, based on the cores that other processes used during
    each measurement."""
    return (
        f"Other processes and the hypervisor used {median(shares):.2f} cores in the median "
        f"measurement and {max(shares):.2f} cores in the worst"
        + (
            ": the machine was not quiet, so trust ratios within a round more than absolute figures."
            if max(shares) >= NOISE
            else ", which is negligible."
        )
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _sources() -> str:
    argv = ["git", "describe", "--always", "--dirty=, with local changes", "--exclude=*"]
    result = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "not a git checkout"
