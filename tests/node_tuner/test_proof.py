"""Proof of pinning: an agent's findings for its pods, and `node-tuner proof`."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.apiserver import Api
from stack.ports import free_ports
from stack.programs import program, run
from support.cgroups import Cgroups, Machine
from support.node_agents import Agents, Node, Pod, node, pod, state

EXCLUSIVE, QUOTA, CORES, INTERRUPTS, FILES, SYSCTLS = (
    "cpus-exclusive",
    "no-cfs-quota",
    "whole-cores",
    "interrupts-elsewhere",
    "open-files",
    "sysctls",
)

WELL = {
    EXCLUSIVE: "ok",
    QUOTA: "ok",
    CORES: "ok",
    INTERRUPTS: "ok",
    FILES: "ok",
    SYSCTLS: "not-applicable",
}
"""All checks that pass without pod sysctls."""

OTHERS = {"app.kubernetes.io/name": "something-else"}

LAYOUTS = {
    "v1-cgroupfs": (False, False, ""),
    "v1-cgroupfs-below-a-root": (False, False, "node1"),
    "v1-systemd": (False, True, ""),
    "v2-cgroupfs": (True, False, ""),
    "v2-systemd": (True, True, ""),
    "v2-systemd-in-kind": (True, True, "kubelet.slice"),
}


def may_mount() -> bool:
    """Whether mount namespaces are available."""
    argv = ["unshare", "--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@dataclass
class Bench:
    """Four CPUs; 0 and 2 are siblings, as are 1 and 3."""

    api: Api
    namespace: str
    node: Node
    folder: Path
    agents: Agents
    machine: Machine = field(init=False)

    def __post_init__(self) -> None:
        self.machine = Machine(self.folder / "root")
        self.machine.cpus({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
        self.machine.device("eth0", {40: "0", 41: "2"})

    @property
    def flags(self) -> list[str]:
        return [
            f"--agent.node={self.node.name}",
            f"--agent.kubeconfig={self.api.kubeconfig}",
            f"--agent.cgroups={self.folder / 'cgroups'}",
            f"--root={self.folder / 'root'}",
        ]

    def cgroups(self, layout: str = "v1-cgroupfs") -> Cgroups:
        return Cgroups(self.folder / "cgroups", *LAYOUTS[layout])

    def pod(self, name: str, **wanted: object) -> Pod:
        return pod(self.api, (self.namespace, self.node), name, **wanted)


@pytest.fixture
def bench(api: Api, tmp_path: Path) -> Iterator[Bench]:
    with api.namespace() as namespace, node(api) as made:
        yield Bench(api, namespace, made, tmp_path, Agents(tmp_path))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pinned_pod_is_proven_in_every_layout_of_cgroups(bench: Bench, layout: str) -> None:
    cgroups, machine = bench.cgroups(layout), bench.machine
    server, other = bench.pod("server", cpu="2"), bench.pod("other", cpu="100m", labels=OTHERS)
    machine.process(100, "1", "3", "1,3")
    machine.process(200, "0,2", name="other")
    machine.process(201, "0-3", name="pause")
    cgroups.put(server, "1,3", 100)
    cgroups.put(other, "0,2", 200, quality="burstable", below="container")
    cgroups.sandbox(other, 201, quality="burstable")
    with bench.agents.run(*bench.flags) as agent:
        becomes(lambda: agent.states("server"), WELL)
        found = agent.json("/proof.json")
        assert (found["node"], found["proven"]) == (bench.node.name, True)
        (proof,) = found["pods"]
        assert (proof["namespace"], proof["uid"]) == (bench.namespace, server.uid)
        assert proof["containers"][0]["cpus"] == "1,3"
        # Now the CPU is shared with another container.
        cgroups.put(other, "0-3", 200, quality="burstable", below="container")
        machine.process(200, "0,2", "0-2", name="other")
        words = f"{bench.namespace}/other/main may run on CPU 1"
        becomes(lambda: agent.checks("server").get(EXCLUSIVE), ("failed", words))
        assert agent.metrics()["pods_proven"] == 0
        cgroups.used(server, 12_500_000)
        series = (
            f'pod_cpu_seconds_total{{namespace="{bench.namespace}",pod="server",container="main"}}'
        )
        becomes(lambda: agent.metrics().get(series), 12.5)


def test_each_check_says_what_it_failed_on(bench: Bench) -> None:
    cgroups, machine = bench.cgroups(), bench.machine
    server = bench.pod("server")
    machine.process(100, "2", files="1024")
    cgroups.put(server, "2", 100)
    cgroups.quota(server, 100_000, 7)
    cgroups.quota(server, 150_000, 0, of="pod")
    with bench.agents.run(*bench.flags, "--agent.nofile=65536") as agent:
        wanted = {
            EXCLUSIVE: ("ok", "CPU 2, shared with none of 0 containers"),
            QUOTA: (
                "failed",
                (
                    "the container has a quota of 1 CPUs, throttled 7 times; "
                    "the pod has a quota of 1.5 CPUs, throttled 0 times"
                ),
            ),
            CORES: ("failed", "CPU 0 shares a core with CPU 2 (full-pcpus-only?)"),
            INTERRUPTS: ("failed", "interrupt 41 of eth0 is on CPU 2"),
            FILES: ("failed", "soft limit 1024, at least 65536 wanted"),
            SYSCTLS: ("not-applicable", "the pod sets none"),
        }
        becomes(lambda: agent.checks("server"), wanted)
        series = 'pod_check{{namespace="{}",pod="server",container="main",check="{}",state="{}"}}'
        metrics = agent.metrics()
        for check, (result, _) in agent.checks("server").items():
            assert metrics[series.format(bench.namespace, check, result)] == 1
        assert (metrics["pods"], metrics["pods_proven"]) == (1, 0)
        # The fault is fixed.
        machine.process(100, "2", files="65536")
        machine.interrupt(41, "0")
        cgroups.quota(server, -1, 7)
        cgroups.quota(server, -1, 0, of="pod")
        machine.cpus({2: "2", 0: "0"})
        becomes(lambda: agent.states("server"), WELL)
        assert agent.checks("server")[QUOTA][1] == "no quota; throttled 7 times before"
        assert agent.metrics()["pods_proven"] == 1


def test_without_a_cpu_manager_a_pod_is_not_proven(bench: Bench) -> None:
    server = bench.pod("server")
    bench.machine.process(100, "0-3")
    bench.cgroups().put(server, "0-3", 100)
    with bench.agents.run(*bench.flags) as agent:
        said, words = eventually(lambda: agent.checks("server"), "the pod")[EXCLUSIVE]
        assert said == "failed"
        assert words.startswith("requests 1, may run on 4 (CPU 0-3): the kubelet's CPU manager")


def test_what_cannot_be_judged_is_not_called_well(bench: Bench) -> None:
    cgroups = bench.cgroups()
    shared, lost = bench.pod("shared", cpu="500m"), bench.pod("lost")
    burst = bench.pod("burst", cpu="1", limit="2")
    waiting, ended, other = bench.pod("waiting"), bench.pod("ended"), bench.pod("o", labels=OTHERS)
    bench.machine.process(100, "0-3")
    bench.machine.process(101, "0-3")
    for each, pid in ((shared, 100), (burst, 101), (waiting, 999), (other, 998)):
        cgroups.put(each, "0-3", pid)
    state(bench.api, bench.namespace, waiting, {"waiting": {"reason": "CrashLoopBackOff"}})
    state(bench.api, bench.namespace, ended, {"terminated": {"exitCode": 0}}, "Succeeded")
    with bench.agents.run(*bench.flags) as agent:
        eventually(lambda: agent.status("/proof.json") == 200, "a proof")

        def pods() -> dict[str, bool]:
            return {each["pod"]: each["proven"] for each in agent.json("/proof.json")["pods"]}

        becomes(pods, {"shared": True, "burst": True, "lost": False, "waiting": False})
        # CPUs are not checked, but files and sysctls are.
        cpu = {check: "not-applicable" for check in (EXCLUSIVE, QUOTA, CORES, INTERRUPTS)}
        expected = {**cpu, FILES: "ok", SYSCTLS: "not-applicable"}
        assert agent.states("shared") == agent.states("burst") == expected
        assert "not Guaranteed" in agent.checks("burst")[EXCLUSIVE][1]
        assert set(agent.states("lost").values()) == {"unknown"}
        words = f"no cgroup of the pod below {bench.folder / 'cgroups'}"
        assert agent.checks("lost")[EXCLUSIVE][1] == words
        assert agent.checks("waiting")[EXCLUSIVE][1] == "the container does not run"
        # The container is running, but in another pid namespace.
        state(bench.api, bench.namespace, waiting, {"running": {}})
        words = "its processes cannot be seen from here (hostPID?)"
        becomes(lambda: agent.checks("waiting").get(EXCLUSIVE), ("unknown", words))
        assert lost.uid not in agent.log.read_text()


def test_the_table_reads_well_and_the_exit_code_says_it(bench: Bench) -> None:
    cgroups, machine = bench.cgroups(), bench.machine
    server, gateway = (
        bench.pod("server", cpu="2"),
        bench.pod("gateway", labels={"app.kubernetes.io/name": "corelane-gateway"}),
    )
    machine.process(100, "1,3")
    machine.process(200, "0")
    cgroups.put(server, "1,3", 100)
    cgroups.put(gateway, "0", 200)
    with bench.agents.run(*bench.flags) as agent, bench.agents.run() as lonely:
        eventually(lambda: agent.states("server") and agent.states("gateway"), "the pods")
        shown = run("node-tuner", "proof", "--agents", agent.url)
        assert shown.returncode == 2, shown
        lines = shown.stdout.splitlines()
        assert max(map(len, lines)) <= 120
        assert lines[0] == f"node {bench.node.name}"
        assert f"  {bench.namespace}/server: proven" in lines
        assert "    main on CPU 1,3" in lines
        assert f"  {bench.namespace}/gateway: NOT PROVEN" in lines
        start = "      failed          interrupts-elsewhere  "
        assert start + "interrupt 40 of eth0 is on CPU 0" in lines
        assert lines[-1] == "pods proven: 1 of 2, nodes: 1"
        assert agent.ask("/proof").body.decode() == shown.stdout
        # The gateway is fixed. An agent listed twice counts as two nodes.
        cgroups.put(gateway, "0", 200)
        machine.interrupt(40, "2")
        machine.interrupt(41, "2")
        machine.cpus({0: "0", 2: "2"})
        eventually(lambda: agent.json("/proof.json")["proven"], "all proven")
        shown = run("node-tuner", "proof", "--agents", f"{agent.url},{agent.url}", "--output=json")
        assert shown.returncode == 0, shown
        answers = json.loads(shown.stdout)
        assert (answers["proven"], answers["errors"]) == (True, [])
        assert [each["node"] for each in answers["nodes"]] == [bench.node.name] * 2
        # An agent without pods is an error regardless of the other agents.
        shown = run("node-tuner", "proof", "--agents", f"{agent.url},{lonely.url}")
        assert shown.returncode == 1, shown
        assert "nodes: 1" in shown.stdout
        assert "pods need Kubernetes: agent.node is empty" in shown.stderr


@pytest.mark.skipif(not may_mount(), reason="no file may be mounted over another")
def test_a_name_means_all_of_its_addresses(bench: Bench, tmp_path: Path) -> None:
    server = bench.pod("server")
    bench.machine.process(100, "1")
    bench.cgroups().put(server, "1", 100)
    # Free on both addresses.
    port = free_ports(1, "0.0.0.0")
    addresses = ("127.0.0.1", "127.0.0.2")
    (tmp_path / "hosts").write_text("".join(f"{each} agents\n" for each in addresses))
    (tmp_path / "host.conf").write_text("multi on\n")
    # A private mount namespace, so that only the program sees the file.
    mounts = " && ".join(f"mount --bind {tmp_path}/{it} /etc/{it}" for it in ("hosts", "host.conf"))
    argv = ["unshare", "--mount", "sh", "-ec", f'{mounts} && exec "$@"', "sh"]
    argv += [str(program("node-tuner")), "proof", "--output=json", f"--agents=http://agents:{port}"]
    with bench.agents.run(*bench.flags, port=port) as first:
        with bench.agents.run(*bench.flags, port=port, address=addresses[1]) as second:
            for each in (first, second):
                eventually(lambda each=each: each.states("server"), "the pod")
            both = subprocess.run(argv, capture_output=True, text=True, check=False)
            found = json.loads(both.stdout)
            assert [each["node"] for each in found["nodes"]] == [bench.node.name] * 2
            assert (both.returncode, found["errors"]) == (2, [])
        one = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert one.returncode == 1
        found = json.loads(one.stdout)
        assert len(found["nodes"]) == 1
        assert f"cannot connect to {addresses[1]}:{port}" in found["errors"][0]


def test_no_pods_prove_nothing(bench: Bench) -> None:
    bench.cgroups()
    bench.pod("other", labels=OTHERS)
    with bench.agents.run(*bench.flags) as agent:
        eventually(lambda: agent.status("/proof.json") == 200, "a proof")
        nothing = run("node-tuner", "proof", NODE_TUNER_AGENTS=agent.url)
        assert nothing.returncode == 2, nothing
        assert "nothing is proven" in nothing.stderr
        assert run("node-tuner", "proof", "--allow-none", "--agents", agent.url).returncode == 0
    silent = run("node-tuner", "proof", "--agents", agent.url)
    assert silent.returncode == 1, silent
    assert "cannot connect" in silent.stderr
