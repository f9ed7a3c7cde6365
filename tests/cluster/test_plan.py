"""Addresses and CPUs of the nodes, and the image archives that `load` accepts."""

from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from cluster import images, plan
from images import archive, layer
from images.archive import Image
from tools.errors import ToolError

pytestmark = pytest.mark.fast

NETWORK = IPv4Network("10.213.0.0/16")


@pytest.mark.parametrize("cpus", [{0, 1}, {2, 3}, {0, 1, 5}])
def test_nodes_share_cpus_if_one_would_have_none_for_other_pods(cpus: set[int]) -> None:
    first, second = plan.make(NETWORK, cpus).nodes
    assert first.cpus == second.cpus == cpus
    assert first.reserved == {min(cpus)}
    assert first.reserved | second.reserved == cpus
    assert not first.reserved & second.reserved


@pytest.mark.parametrize("cpus", [range(4), range(7), range(64), {2, 3, 8, 9, 11}])
def test_nodes_own_disjoint_cpus_and_reserve_one_each(cpus: Iterable[int]) -> None:
    first, second = plan.make(NETWORK, cpus).nodes
    assert not first.cpus & second.cpus
    assert first.cpus | second.cpus == set(cpus)
    assert [node.reserved for node in (first, second)] == [{min(first.cpus)}, {min(second.cpus)}]


@pytest.mark.parametrize("cpus", [set(), {5}])
def test_fewer_than_two_cpus_are_rejected(cpus: set[int]) -> None:
    with pytest.raises(ToolError, match=rf"this machine has {len(cpus)} usable"):
        plan.split(cpus)


def test_networks_do_not_overlap() -> None:
    made = plan.make(NETWORK, {0, 1})
    for one, other in (
        (made.links, made.pods),
        (made.links, made.services),
        (made.pods, made.services),
        (made.nodes[0].pods, made.nodes[1].pods),
    ):
        assert not one.overlaps(other)
    assert all(node.pods.subnet_of(made.pods) for node in made.nodes)
    addresses = [made.host, made.control, *(node.address for node in made.nodes)]
    assert len(set(addresses)) == 4
    assert all(address in made.links for address in addresses)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0\n", {0}), ("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("1,3-4\n", {1, 3, 4})],
)
def test_cpu_lists_of_the_kernel(text: str, cpus: set[int]) -> None:
    assert plan.cpu_list(text) == cpus
    assert plan.cpu_list(plan.cpu_text(cpus)) == cpus


def test_an_archive_tells_name_and_digest(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    file = tmp_path / "image.tar"
    image = Image("corelane-server", "1.2.3", "amd64", created=0, entrypoint=("/program",))
    written = archive.write(image, [[layer.program("/program", program)]], file)
    (named,) = images.contents(file)
    assert named.name == "docker.io/library/corelane-server:1.2.3"
    assert named.pinned == f"docker.io/library/corelane-server@{written.digest}"


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no image archive .*nothing\.tar: run make images"):
        images.contents(tmp_path / "nothing.tar")


def test_a_file_of_another_form_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "text.tar"
    file.write_text("no archive")
    with pytest.raises(ToolError, match=r"text\.tar is not an OCI archive"):
        images.contents(file)
