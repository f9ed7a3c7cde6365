"""How replicas are spread over CPUs and ports."""

from pathlib import Path

import pytest

from local import commands, topology
from local.settings import VARIABLES, Settings


def plan(replicas: int, cpus: tuple[int, ...]) -> topology.Topology:
    return topology.plan(Settings(replicas, cpus, VARIABLES))


@pytest.mark.parametrize(
    ("replicas", "cpus", "spread"),
    [
        (2, (0, 1), [0, 1]),
        (2, (4, 6, 7), [4, 6]),
        (3, (0, 1), [0, 1, 0]),
        (2, (5,), [5, 5]),
    ],
)
def test_replicas_take_the_cpus_in_turn(
    replicas: int, cpus: tuple[int, ...], spread: list[int]
) -> None:
    assert [replica.cpu for replica in plan(replicas, cpus).replicas] == spread


def test_ports_count_up_from_the_first() -> None:
    replicas = plan(3, (0, 1)).replicas
    assert [replica.port for replica in replicas] == [8100, 8101, 8102]
    assert [replica.admin_port for replica in replicas] == [8200, 8201, 8202]


@pytest.mark.parametrize(("replicas", "pin"), [(2, "on"), (3, "off")])
def test_lanes_are_pinned_only_on_cpus_of_their_own(replicas: int, pin: str) -> None:
    made = plan(replicas, (0, 1))
    argv = commands.server(made.replicas[0], made.pinned, Path("corelane-server"))
    assert argv[argv.index("--pin") + 1] == pin


def test_a_saved_topology_is_read_back(tmp_path: Path) -> None:
    made = plan(2, (0, 1))
    assert topology.read(tmp_path) is None
    topology.save(made, tmp_path)
    assert topology.read(tmp_path) == made
