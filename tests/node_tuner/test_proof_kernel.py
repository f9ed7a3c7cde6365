"""Proof of pinning with this kernel's cgroups, processes and network namespaces."""

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.apiserver import Api
from support.node_agents import Agents, Node, NodeAgent, Pod, node, pod

# Cgroup name prefix, followed by the creator's pid.
NAME = "corelane-test-"

CPUSET, CPU = Path("/sys/fs/cgroup/cpuset"), Path("/sys/fs/cgroup/cpu")

PORTS = "net.ipv4.ip_local_port_range"

# A port range that differs from this machine's.
WANTED = "10357 54326"

needs_v1 = pytest.mark.skipif(
    not ((CPUSET / "cpuset.cpus").exists() and os.access(CPUSET, os.W_OK)),
    reason="no hierarchy cpuset of cgroup v1 that may be written",
)
needs_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode != 0,
    reason="no network namespaces may be made",
)


@pytest.fixture
def where(api: Api) -> Iterator[tuple[str, Node]]:
    with api.namespace() as namespace, node(api) as made:
        yield namespace, made


@contextmanager
def sleeping(*before: str) -> Iterator[int]:
    """Yields the pid of a sleeper that ends with this process, even after a crash."""
    argv = [*before, "setpriv", "--pdeathsig=KILL", "sleep", "3600"]
    with subprocess.Popen(argv) as process:
        try:
            yield process.pid
        finally:
            process.kill()


class Tree:
    """Cgroups below a name that belongs to the test."""

    def __init__(self, cpus: str) -> None:
        self.root = f"{NAME}{os.getpid()}-{secrets.token_hex(4)}"
        self._cpus = cpus
        self._made: list[Path] = []

    def begin(self) -> None:
        """Removes leftovers first."""
        for hierarchy in (CPUSET, CPU):
            for root in hierarchy.glob(f"{NAME}*-*"):
                if not Path("/proc", root.name.removeprefix(NAME).split("-")[0]).exists():
                    _sweep(root)
        self._make(Path(self.root), self._cpus)
        self._make(Path(self.root, "kubepods"), self._cpus)

    def put(self, of: Pod, cpus: str, pid: int) -> None:
        folder = Path(self.root, "kubepods", f"pod{of.uid}")
        self._make(folder, (CPUSET / folder.parent / "cpuset.cpus").read_text())
        self._make(folder / of.id, cpus)
        for hierarchy in (CPUSET, CPU):
            (hierarchy / folder / of.id / "cgroup.procs").write_text(str(pid))

    def quota(self, of: Pod, microseconds: int) -> None:
        folder = CPU / self.root / "kubepods" / f"pod{of.uid}" / of.id
        (folder / "cpu.cfs_quota_us").write_text(str(microseconds))

    def _make(self, folder: Path, cpus: str) -> None:
        for hierarchy in (CPUSET, CPU):
            (hierarchy / folder).mkdir()
            self._made.append(hierarchy / folder)
        (CPUSET / folder / "cpuset.mems").write_text((CPUSET / "cpuset.mems").read_text())
        (CPUSET / folder / "cpuset.cpus").write_text(cpus)

    def remove(self) -> None:
        """Removes the cgroups in reverse order. An exited process can linger briefly."""
        for folder in reversed(self._made):
            eventually(lambda folder=folder: _removed(folder), f"{folder} is left")


def _sweep(root: Path) -> None:
    """Removes empty cgroups only."""
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return not folder.exists()
    return True


def flags(api: Api, on: Node, cgroups: Path) -> list[str]:
    """Returns the flags of an agent that only audits this machine."""
    return [
        "--agent.mode=audit",
        f"--agent.node={on.name}",
        f"--agent.kubeconfig={api.kubeconfig}",
        f"--agent.cgroups={cgroups}",
        "--agent.nofile=1",
    ]


@needs_v1
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one CPU cannot be anybody's own")
def test_a_process_is_pinned_by_a_real_cgroup(
    api: Api, where: tuple[str, Node], tmp_path: Path
) -> None:
    server = pod(api, where, "server")
    other = pod(api, where, "other", cpu="100m", labels={"app": "other"})
    every = (CPUSET / "cpuset.cpus").read_text()
    with ExitStack() as stack:
        tree = Tree(every)
        stack.callback(tree.remove)
        tree.begin()
        first, second = (stack.enter_context(sleeping()) for _ in range(2))
        tree.put(server, "1", first)
        tree.put(other, "0", second)
        agents = Agents(tmp_path)
        with agents.run(*flags(api, where[1], Path("/sys/fs/cgroup"))) as agent:
            alone = ("ok", "CPU 1, shared with none of 1 containers")
            becomes(lambda: agent.checks("server").get("cpus-exclusive"), alone)
            checks = agent.checks("server")
            assert checks["no-cfs-quota"] == ("ok", "no quota, never throttled")
            # The rest depends on the machine.
            assert checks["whole-cores"][0] in ("ok", "failed", "not-applicable")
            assert checks["interrupts-elsewhere"][0] in ("ok", "failed", "not-applicable")
            assert checks["open-files"][0] == "ok"
            tree.quota(server, 50_000)
            (
                CPUSET / tree.root / "kubepods" / f"pod{other.uid}" / other.id / "cpuset.cpus"
            ).write_text(every)
            words = f"{where[0]}/other/main may run on CPU 1"
            becomes(lambda: agent.checks("server").get("cpus-exclusive"), ("failed", words))
            # Quota and CPUs may be read at different times.
            becomes(lambda: agent.states("server").get("no-cfs-quota"), "failed")
            words = "the container has a quota of 0.5 CPUs, throttled "
            assert agent.checks("server")["no-cfs-quota"][1].startswith(words)


@pytest.fixture
def in_namespace(
    api: Api, where: tuple[str, Node], tmp_path: Path
) -> Iterator[Callable[[str], Pod]]:
    """A pod with its own network namespace and ephemeral port range."""
    with ExitStack() as stack:

        def make(ports: str) -> Pod:
            made = pod(api, where, "server", cpu="100m", sysctls={PORTS: WANTED})
            script = f'echo "{ports}" > /proc/sys/{PORTS.replace(".", "/")} && exec "$@"'
            pid = stack.enter_context(sleeping("unshare", "--net", "sh", "-ec", script, "sh"))
            container = tmp_path / "cgroups" / "cpuset" / "kubepods" / f"pod{made.uid}" / made.id
            container.mkdir(parents=True)
            (tmp_path / "cgroups" / "cpu").mkdir()
            (container / "cgroup.procs").write_text(f"{pid}\n")
            (container / "cpuset.cpus").write_text("0\n")
            eventually(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", "the process")
            return made

        yield make


def sysctls(agent: NodeAgent) -> tuple[str, str]:
    return eventually(lambda: agent.checks("server"), "the pod")["sysctls"]


@needs_namespaces
def test_sysctls_are_read_inside_the_pod(
    api: Api, where: tuple[str, Node], tmp_path: Path, in_namespace: Callable[[str], Pod]
) -> None:
    in_namespace(WANTED)
    with Agents(tmp_path).run(*flags(api, where[1], tmp_path / "cgroups")) as agent:
        assert sysctls(agent) == ("ok", "1 as in the pod")
        before = Path("/proc/sys", PORTS.replace(".", "/")).read_text()
        assert before.split() != WANTED.split()

        def namespaces() -> set[str]:
            found = set()
            for task in Path(f"/proc/{agent.pid}/task").iterdir():
                with suppress(FileNotFoundError):
                    found.add(os.readlink(task / "ns/net"))
            return found

        # Agent threads keep their namespace; reader threads exit after each pass.
        becomes(namespaces, {os.readlink("/proc/self/ns/net")})


@needs_namespaces
def test_another_value_inside_the_pod_fails(
    api: Api, where: tuple[str, Node], tmp_path: Path, in_namespace: Callable[[str], Pod]
) -> None:
    in_namespace("2000 65000")
    with Agents(tmp_path).run(*flags(api, where[1], tmp_path / "cgroups")) as agent:
        assert sysctls(agent) == ("failed", f"{PORTS} is 2000 65000, wanted {WANTED}")


@needs_namespaces
def test_without_privileges_sysctls_are_unknown(
    api: Api, where: tuple[str, Node], tmp_path: Path, in_namespace: Callable[[str], Pod]
) -> None:
    in_namespace(WANTED)
    without = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    told = flags(api, where[1], tmp_path / "cgroups")
    with Agents(tmp_path).run(*told, before=without) as agent:
        words = "the pod's namespaces cannot be entered: only a privileged agent may (mode apply)"
        assert sysctls(agent) == ("unknown", words)
        (found,) = agent.json("/proof.json")["pods"]
        # Checks that need privileges are not held against the pod.
        assert found["proven"]
