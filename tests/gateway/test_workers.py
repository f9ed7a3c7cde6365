"""Envoy's worker runs on the chart's CPU, and records the statistics that the chart configures."""

import os
from pathlib import Path

import pytest

from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import ask
from stack.replica import Server

ALL = os.sched_getaffinity(0)

pytestmark = pytest.mark.skipif(
    len(ALL) < 2, reason="with one CPU, a worker that is pinned is like one that is free"
)


def cpus_of_worker(gateway: Gateway) -> set[int]:
    """Returns the CPUs on which the only worker thread may run."""
    threads = Path(f"/proc/{gateway.process.pid}/task")
    (worker,) = (task for task in threads.iterdir() if "wrk:worker" in (task / "comm").read_text())
    return os.sched_getaffinity(int(worker.name))


def test_a_worker_is_free_of_cpus_by_default(server: Server, tmp_path: Path) -> None:
    with gateway_to([endpoint(server.url, server.admin)], tmp_path) as gateway:
        assert cpus_of_worker(gateway) == ALL


def test_a_pinned_worker_has_one_cpu_and_answers(server: Server, tmp_path: Path) -> None:
    workers = {"affinity": "on"}
    values = {"pinning": "exclusive", "workers": workers, "stats": {"replies": False}}
    with gateway_to([endpoint(server.url, server.admin)], tmp_path, values=values) as gateway:
        assert cpus_of_worker(gateway) == {min(ALL)}
        for _ in range(8):
            assert ask(gateway.url, "/hello").status == 200
        series = ask(gateway.stats, "/stats/prometheus").body
        assert b"envoy_http_downstream_rq_xx" in series
        assert b"envoy_cluster_upstream_rq_total" in series
        # Without stats.replies.
        assert b"envoy_cluster_upstream_rq_xx" not in series
