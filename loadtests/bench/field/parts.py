"""The parts of a run: what `--only` names, and who measures it."""

from loadtests.bench.field import c10k, proxies, scaling
from loadtests.bench.field.contender import C10K, MIXED, PROJECTS
from loadtests.bench.field.workloads import REQUESTS

IDLE = "idle"
PROXIES = "proxies"
SCALING = "scaling"

STARTS = "starts"
"""Time that no part has alone: of starts and of the first warm-up."""

ROUNDS = (*REQUESTS, PROJECTS, MIXED, IDLE)
"""Measured in the rounds, one contender after the other."""

APART = {C10K: c10k, PROXIES: proxies, SCALING: scaling}
"""Measured after the rounds, by what has `prepare`, `seconds` and `measure`."""

PARTS = (*ROUNDS, *APART)
