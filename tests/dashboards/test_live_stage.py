"""The parts of a stage: how they are started, ended and named when they fail."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.live import node, parts, plan, scrape
from dashboards.live.options import Options
from dashboards.live.parts import Part
from dashboards.live.replicas import with_flags
from support import REPOSITORY, eventually
from tools import resolve
from tools.errors import ToolError


def part(name: str, script: str, folder: Path) -> Part:
    """A shell that is ready when it has made a file of its name."""
    mark = folder / f"{name}.ready"
    return Part(name, ["sh", "-c", script], folder, mark.exists, dict(os.environ))


def sleeper(name: str, folder: Path) -> Part:
    """One that goes on until it is told to end."""
    return part(name, f"touch {name}.ready; exec sleep 60", folder)


def test_a_part_can_be_killed_and_started_again(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    first = one.pid
    one.kill()
    assert (one.running, one.failed, one.pid) == (False, False, 0)
    one.start()
    assert one.pid not in (0, first)
    parts.end([one])
    assert not one.running


def test_a_part_that_is_stopped_ends_like_the_others(tmp_path: Path) -> None:
    one = sleeper("one", tmp_path)
    one.start()
    one.signal(signal.SIGSTOP)
    parts.end([one])
    assert one.wait() == -signal.SIGTERM


def test_every_part_that_does_not_come_up_is_named_with_its_words(tmp_path: Path) -> None:
    broken = [part(name, f"echo {name} has no port; exit 3", tmp_path) for name in ("two", "three")]
    one = sleeper("one", tmp_path)
    everything = [one, *broken]
    for each in everything:
        each.start(wait=False)
    try:
        for each in broken:
            eventually(lambda each=each: not each.running, f"the end of {each.name}")
        with pytest.raises(ToolError) as error:
            parts.wait_for(everything)
    finally:
        parts.end(everything)
    first, *rest = str(error.value).splitlines()
    assert first == "two, three: ended right after the start"
    assert {"    two has no port", "    three has no port"} <= set(rest)


def test_an_end_that_nobody_asked_for_is_a_failure(tmp_path: Path) -> None:
    one = part("one", "touch one.ready", tmp_path)
    one.start(wait=False)
    eventually(lambda: one.failed, "the end")
    load = part("load", "touch load.ready", tmp_path)
    load.ends = True
    load.start(wait=False)
    eventually(lambda: not load.running, "the end of the load")
    assert not load.failed


def test_a_flag_that_is_given_again_takes_the_place_of_the_first() -> None:
    argv = ["server", "--lanes", "1", "--pin", "on"]
    assert with_flags(argv, ["--pin", "off", "--backlog", 9]) == [
        *("server", "--lanes", "1", "--pin", "off", "--backlog", "9")
    ]
    assert argv[-1] == "on"


def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    jobs = {"server": {"server-0": 1}, "gateway": {"gateway": 2}, "node-tuning": {node.NAME: 3}}
    options = Options(interval=0.5, alertmanagers=("127.0.0.1:9093",))
    file = tmp_path / "prometheus.yml"
    file.write_text(scrape.configuration(options, jobs))
    argv = [resolve.ensure(["promtool"])["promtool"], "check", "config", file]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rules = len(list((REPOSITORY / "dashboards/rules").glob("*.rules.yaml")))
    assert f"{rules} rule files found" in result.stdout


def test_rules_are_evaluated_more_often_and_are_otherwise_the_same(tmp_path: Path) -> None:
    shipped = sorted((REPOSITORY / "dashboards/rules").glob("*.rules.yaml"))
    (pattern,) = scrape.paced(tmp_path / "rules", Options().rules, 0.5)
    copies = sorted(pattern.parent.glob(pattern.name))
    assert [copy.name for copy in copies] == [file.name for file in shipped]
    groups = 0
    for before, after in zip(shipped, copies, strict=True):
        ours, theirs = (yaml.safe_load(file.read_text())["groups"] for file in (after, before))
        groups += len(ours)
        for group, original in zip(ours, theirs, strict=True):
            if "interval" in original:
                original["interval"] = "500ms"
            assert group == original
    assert groups


def test_no_port_is_given_twice() -> None:
    drawn = plan.draw(Options(replicas=2))
    topology = drawn.topology
    ports = [replica.port for replica in (*topology.replicas, drawn.edge)]
    ports += [replica.admin_port for replica in (*topology.replicas, drawn.edge)]
    ports += [topology.gateway_port, topology.envoy_admin_port, topology.gateway_stats_port]
    ports += [topology.prometheus_port, topology.postgres_port]
    ports += [drawn.gateway_agent, drawn.gateway_tls, drawn.collector]
    ports += [drawn.node_tuning, drawn.node_tuning + 1]
    ports += [drawn.kubernetes + index for index in range(3)]
    assert len(ports) == len(set(ports))


def test_the_tree_says_what_happens_to_its_node(tmp_path: Path) -> None:
    tree = node.make(tmp_path, cpus=8)
    container = node.Container("server-0", "uid", "id", "0", 4711)
    tree.put(container, quota=50_000, throttled=3)
    tree.use(container, 5_000_000)
    group = Path("kubepods/poduid/id")
    assert (tree.cgroups / "cpu" / group / "cpu.cfs_quota_us").read_text() == "50000\n"
    assert (tree.cgroups / "cpuacct" / group / "cpuacct.usage").read_text() == "5000000\n"
    tree.drift("fs.file-max", "7")
    assert tree.sysctl("fs.file-max").read_text() == "7\n"
    tree.remove(container)
    assert (tree.cgroups / "cpuset" / group / "cgroup.procs").read_text() == ""
    assert not (tree.root / "proc/4711").exists()
