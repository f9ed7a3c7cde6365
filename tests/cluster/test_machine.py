"""Developer tooling on cgroup v2: node cgroups, `make up`, and a complete local cluster."""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import programs
from cluster.plan import cpu_list
from deploy import images
from local import up
from machines.initramfs import HACK, PYTHON
from stack import REPOSITORY, eventually
from stack.programs import program
from support.machines import ANSWER, HOUSED, Machine, booted_with
from tools import resolve

COMMON = """
from ipaddress import IPv4Network
from pathlib import Path
from cluster import cgroups, plan
root = Path("/sys/fs/cgroup")
nodes = plan.make(IPv4Network("10.213.0.0/16"), cgroups.usable_cpus(root)).nodes
found = cgroups.folders(root, [node.cgroup for node in nodes])
"""
CREATE = """
cgroups.require(root)
for node in nodes:
    cgroups.create(root, node.cgroup, node.cpus)
"""
REMOVE = """
print(*sorted(cgroups.pids(found)))
cgroups.remove(found)
"""


def cluster(machine: Machine, script: str) -> str:
    """Runs Python code with the cluster's modules and returns its output."""
    words = f"PYTHONPATH={HACK} PYTHONDONTWRITEBYTECODE=1 {PYTHON} -S -"
    return machine.good(f"{words} <<'END'\n{COMMON}{script}\nEND")


def test_pods_of_a_node_stay_on_its_cpus(large: Machine) -> None:
    cluster(large, CREATE)
    pids = []
    for node in ("node1", "node2"):
        pods = f"/sys/fs/cgroup/corelane-{node}/kubepods"
        # Prepares cgroups for a kubelet that sees all CPUs and for a kubelet whose CPUs are
        # assigned elsewhere.
        made = large.good(f"""
            mkdir -p {pods}/shared
            for folder in {pods}/.. {pods}; do
              echo '+cpuset +cpu +memory +pids' >$folder/cgroup.subtree_control
            done
            echo 0-7 >{pods}/shared/cpuset.cpus
            sh -c 'echo $$ >{pods}/shared/cgroup.procs; exec sleep 3600' >/run/log 2>&1 &
            echo $!
            """)
        pids.append(int(made))
    allowed = "grep -h Cpus_allowed_list: /proc/PID/status | cut -f2"
    # The shell returns before the process has joined its cgroup.
    masks = [
        large.good(f"until {mask} | grep -qv 0-7; do usleep 100000; done; {mask}")
        for mask in (allowed.replace("PID", str(pid)) for pid in pids)
    ]
    assert masks == ["4-7\n", "0-3\n"]
    assert cluster(large, "print(*sorted(cgroups.pids(found)))").split() == [
        *map(str, sorted(pids))
    ]
    large.good(f"kill {' '.join(map(str, pids))}")
    large.good(
        "while grep -q . /sys/fs/cgroup/corelane-*/kubepods/shared/cgroup.procs; do usleep 100000; done"
    )
    assert cluster(large, REMOVE) == "\n"
    assert cluster(large, "print(found)") == "[]\n"


STATE = "/cluster"
SLOW = 1800.0
"""Command timeout in seconds; commands take minutes on emulated CPUs."""

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers:
    - name: server
      image: {image}
      imagePullPolicy: Never
      args: [--listen=0.0.0.0:8080, --admin.listen=0.0.0.0:8081]
      readinessProbe: {{httpGet: {{path: /readyz, port: 8081}}, timeoutSeconds: 60}}
      resources: {resources}
---
"""


@pytest.fixture(scope="module")
def housed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Yields a machine with four CPUs and the tests' file system."""
    with booted_with(tmp_path_factory.mktemp("housed"), hardware=HOUSED) as machine:
        yield machine


def hack(machine: Machine, *words: str) -> str:
    path = shlex.quote(os.environ["PATH"])
    environment = f"HOME={Path.home()} PATH={path} CLUSTER_STATE={STATE} TEST_SLOWER=15 PYTHONDONTWRITEBYTECODE=1"
    command = f"cd {REPOSITORY} && ulimit -n 65536 && {environment} {PYTHON}"
    return machine.good(f"{command} hack/{shlex.join(words)}", SLOW)


def test_the_tests_of_the_local_platform_pass(housed: Machine) -> None:
    """Every replica owns a CPU and answers through the gateway; `down` leaves no process."""
    # There is no network, so everything is downloaded and built in advance.
    resolve.ensure(up.TOOLS)
    program("corelane-server")
    chosen = "through_the_gateway or its_cpu_only or scrapes_every_part or down_leaves_no_process"
    said = hack(housed, "tools", "run", "pytest", "tests/local/test_up.py", "-k", chosen)
    assert "4 passed" in said


@pytest.fixture(scope="module")
def whole(housed: Machine) -> Iterator[Machine]:
    # Image layers cannot be stored on an overlay.
    housed.good(f"mkdir {STATE} && mount -t tmpfs -o size=3G state {STATE}")
    hack(housed, "cluster", "up")
    yield housed
    hack(housed, "cluster", "down")


def test_servers_of_a_whole_cluster_have_lanes_on_their_own_cpus(whole: Machine) -> None:
    """Each node has one server with exclusive CPUs and one server that shares the remaining CPU."""
    server = images.build("server")
    hack(whole, "cluster", "load", str(server.archive))
    own = "{limits: {cpu: 1, memory: 128Mi}}"
    pods = {"one": ("node1", own), "two": ("node2", own), "other": ("node2", "{}")}
    image = f"docker.io/library/corelane-server:{server.tag}"
    text = "".join(
        POD.format(name=name, node=node, resources=resources, image=image)
        for name, (node, resources) in pods.items()
    )
    kubectl = f"{programs.obtain()['kubectl']} --kubeconfig {STATE}/kubeconfig"
    whole.good(f"{kubectl} wait --for=create serviceaccount/default --timeout={SLOW:.0f}s", SLOW)
    whole.good(f"{kubectl} apply -f - <<'END'\n{text}END", SLOW)
    whole.good(f"{kubectl} wait --for=condition=Ready pod --all --timeout={SLOW:.0f}s", 2 * SLOW)
    found = json.loads(whole.good(f"{kubectl} get pod -o json", SLOW))["items"]
    status = {pod["metadata"]["name"]: pod["status"] for pod in found}

    def cpus(name: str) -> frozenset[int]:
        """CPUs allowed for a pod's server processes."""
        (container,) = status[name]["containerStatuses"]
        script = f"""
            for process in $(cat $(find /sys/fs/cgroup -path '*/{container["containerID"][13:]}/cgroup.procs')); do
              grep Cpus_allowed_list: /proc/$process/status | cut -f2
            done"""
        return frozenset().union(*map(cpu_list, whole.good(script).split()))

    def lanes(name: str) -> list[int | None]:
        url = f"http://{status[name]['podIP']}:8081/lanes"
        return [
            lane["cpu"] for lane in json.loads(whole.good(f"/run/busybox wget -qO- {url}"))["lanes"]
        ]

    def alone() -> bool:
        one, two, other = map(cpus, pods)
        return one in ({2}, {3}) and two in ({0}, {1}) and other == {0, 1} - two

    eventually(alone, "pods on CPUs of their own", patience=ANSWER, pause=0.5)
    assert [lanes(name) for name in pods] == [[*cpus("one")], [*cpus("two")], [None]]
