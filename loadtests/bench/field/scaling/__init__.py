"""How each design's cost grows with cores, connections, routes and pods: measured here, and a model beyond."""

from loadtests.bench.field.scaling.run import measure, prepare, seconds

__all__ = ["measure", "prepare", "seconds"]
