"""The parts of a run: what `--only` names, and who measures it."""

import importlib
import importlib.util
from types import ModuleType

from loadtests.bench.field.contender import C10K, MIXED, PROJECTS
from loadtests.bench.field.workloads import REQUESTS

IDLE = "idle"
PROXIES = "proxies"
SCALING = "scaling"

STARTS = "starts"
"""Time that no part has alone: of starts and of the first warm-up."""

ROUNDS = (*REQUESTS, PROJECTS, MIXED, IDLE)
"""Measured in the rounds, one contender after the other."""

APART = (C10K, PROXIES, SCALING)
"""Measured after the rounds, each by a module of this folder with `prepare`, `seconds` and
`measure`."""

PARTS = (*ROUNDS, *APART)


def module(part: str) -> ModuleType | None:
    """What measures a part that stands apart."""
    name = f"loadtests.bench.field.{part}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
