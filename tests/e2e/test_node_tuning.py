"""Audits, tunes, monitors and restores nodes, and proves that pods have exclusive CPUs.

Only settings in the nodes' network namespaces change, and these namespaces disappear with the
cluster.
"""

import contextlib
import sys
from collections.abc import Iterator

import pytest

from cluster import settings as cluster_settings
from stack import eventually
from stack.http import Client, ask
from support.kubernetes import PAUSE, ROLL_OUT, Cluster, Pod
from support.pinning import processes_of
from support.releases import Release
from support.tuning import NAME, RELEASE, Tuning, inside

TIME_WAIT = "net.netfilter.nf_conntrack_tcp_timeout_time_wait"
FIN_WAIT = "net.netfilter.nf_conntrack_tcp_timeout_fin_wait"
MASK = "net.core.rps_default_mask"
RPS = "net.rps_cpus"
XPS = "net.xps_cpus"

QUEUE = "eth0/rx-0"

MACHINES = cluster_settings.kind() == "vm"
"""Whether nodes have their own kernels. Debian 12's kernel lacks the default mask (new in Linux
6.3).
"""

KNOBS = {TIME_WAIT: "30", RPS: "0-1"} | ({} if MACHINES else {MASK: "0-1"})
"""Settings per network namespace, which are therefore independent for each node."""

STATE = "/var/lib/corelane/node-tuner"


def sysctl(name: str) -> str:
    return "/proc/sys/" + name.replace(".", "/")


def queue_file(node: str) -> str:
    """The node's receive queue mask; with namespaces, /sys belongs to the machine."""
    own = "" if MACHINES else f"{cluster_settings.load().state}/{node}"
    return f"{own}/sys/class/net/eth0/queues/rx-0/rps_cpus"


def own_settings(node: str) -> dict[str, str]:
    files = {name: sysctl(name) for name in {*KNOBS, FIN_WAIT} - {RPS}}
    files[RPS] = queue_file(node)
    return {name: inside(node, "cat", file) for name, file in files.items()}


def write(node: str, file: str, value: str) -> None:
    inside(node, "sh", "-c", f"echo {value} >{file}")


def apply(tuning: Tuning, **values: object) -> None:
    """Installs the chart in `apply` mode with per-node knobs."""
    tuning.install(
        mode="apply", profile="custom", interfaces=["eth0"], **{"knobs": KNOBS, **values}
    )


def is_tuned(node: str) -> bool:
    found = own_settings(node)
    masks = {int(found[name].replace(",", ""), 16) for name in {MASK, RPS} & KNOBS.keys()}
    return found[TIME_WAIT].strip() == "30" and masks == {3}


def test_an_audit_needs_no_privilege_and_finds_what_differs(tuning: Tuning) -> None:
    before = {node: own_settings(node) for node in tuning.cluster.nodes()}
    tuning.install(profile="web-1m")
    for node, pod in tuning.pods().items():
        (container,) = pod["spec"]["containers"]
        context = container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context.get("privileged")
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        rows = tuning.audit(node)
        # This sysctl is machine-wide, not per network namespace.
        row = rows["fs.nr_open", ""]
        assert row["actual"] == inside(node, "cat", "/proc/sys/fs/nr_open").strip()
        assert row["wanted"] == "2097152"
        assert row["state"] == ("differs" if int(row["actual"]) < int(row["wanted"]) else "ok")
        # kube-proxy sets this sysctl on every node.
        assert rows["net.netfilter.nf_conntrack_max", ""]["state"] == "owned"
        assert "conntrack.min to 2097152" in rows["net.netfilter.nf_conntrack_max", ""]["reason"]
        # This sysctl exists only in the initial network namespace.
        backlog = rows["net.core.netdev_max_backlog", ""]
        assert backlog["state"] == ("differs" if MACHINES else "skipped")
        assert MACHINES or backlog["reason"]
        assert 'corelane_node_knob_settings{knob="fs.nr_open"' in tuning.metrics(node)
    assert {node: own_settings(node) for node in before} == before


def test_a_node_is_tuned_kept_so_and_put_back(tuning: Tuning) -> None:
    nodes = tuning.cluster.nodes()
    before = {node: own_settings(node) for node in nodes}
    apply(tuning)
    assert all(is_tuned(node) for node in nodes)
    assert all(before[node] != own_settings(node) for node in nodes)
    assert all(tuning.audit(node)[RPS, QUEUE]["state"] == "ok" for node in nodes)
    first, second = nodes

    # A manual change.
    write(first, sysctl(TIME_WAIT), "77")
    tuning.wait(lambda: is_tuned(first), "a node that is repaired")
    drift = f'corelane_node_knob_drift_total{{knob="{TIME_WAIT}"}} 1'
    tuning.wait(lambda: drift in tuning.metrics(first), "drift that is counted")
    assert drift not in tuning.metrics(second)
    told = {"KnobDrifted", "KnobRepaired"}
    tuning.wait(lambda: told <= tuning.events(first), "events of the node")

    # Neither a crash nor a rollout restores anything.
    _kill(tuning, first)
    tuning.wait(lambda: _restarts(tuning, first) == 1, "another agent")
    assert is_tuned(first)
    apply(tuning, drift="report")
    assert all(is_tuned(node) for node in nodes)

    # Audit mode only reports drift.
    write(second, queue_file(second), "1")
    tuning.wait(
        lambda: tuning.audit(second)[RPS, QUEUE]["state"] == "differs", "drift that is told of"
    )
    assert inside(second, "cat", queue_file(second)).strip() == "1"
    write(second, queue_file(second), "3")

    # Settings outside the new profile are restored; new ones are recorded.
    left = {name: value for name, value in KNOBS.items() if name == MASK}
    apply(tuning, knobs={FIN_WAIT: "60", **left})
    for node in nodes:
        after = own_settings(node)
        assert after[FIN_WAIT].strip() == "60"
        assert (after[TIME_WAIT], after[RPS]) == (before[node][TIME_WAIT], before[node][RPS])

    tuning.uninstall()
    assert_restored(before)


def assert_restored(before: dict[str, dict[str, str]]) -> None:
    assert {node: own_settings(node) for node in before} == before
    for node in before:
        assert inside(node, "ls", STATE).split() in ([], ["lock"])


def test_nodes_are_restored_when_their_agents_go_for_good(tuning: Tuning) -> None:
    """GitOps tools run no Helm hooks on deletion, and delete the objects in any order."""
    cluster, label = tuning.cluster, "corelane.example/tuned"
    first, second = nodes = cluster.nodes()
    before = {node: own_settings(node) for node in nodes}
    for node in nodes:
        cluster.kubectl("label", "node", node, f"{label}=yes")
    try:
        apply(tuning, nodeSelector={label: "yes"})
        assert all(is_tuned(node) for node in nodes)
        cluster.kubectl("label", "node", second, f"{label}-")
        tuning.wait(lambda: second not in tuning.pods(), "no agent")
        assert_restored({second: before[second]})
        assert is_tuned(first)
        # Its next container finds the journal.
        _kill(tuning, first)
        tuning.wait(lambda: _restarts(tuning, first) == 1, "another agent")
        objects = tuning.helm("get", "manifest", RELEASE).stdout
        cluster.kubectl("delete", "--filename", "-", stdin=objects)
        tuning.wait(lambda: not tuning.pods(), "no agents")
        assert_restored(before)
    finally:
        for node in nodes:
            cluster.kubectl("label", "node", node, f"{label}-")


def _kill(tuning: Tuning, node: str) -> None:
    """Simulates the OOM killer."""
    (agent,) = processes_of(tuning.pods()[node]["metadata"]["uid"])
    agent.kill()


def _restarts(tuning: Tuning, node: str) -> int:
    (status,) = tuning.pods()[node]["status"]["containerStatuses"]
    return status["restartCount"] if status["ready"] else -1


CHANNELS = """
import ctypes, fcntl, socket, struct, sys
# The structure and the commands are those of linux/ethtool.h.
GET, SET, SIOCETHTOOL = 0x3C, 0x3D, 0x8946
channels = (ctypes.c_uint32 * 9)(GET)
request = struct.pack("16sP16x", b"eth0", ctypes.addressof(channels))
device = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(device, SIOCETHTOOL, request)
channels[0], channels[8] = SET, int(sys.argv[1])
fcntl.ioctl(device, SIOCETHTOOL, request)
"""


def set_queues(node: str, count: int) -> None:
    """Like `ethtool -L`."""
    inside(node, sys.executable, "-c", CHANNELS, str(count))


@pytest.fixture(scope="module", autouse=True)
def one_queue(cluster: Cluster) -> Iterator[None]:
    """Limits links to one queue, as between namespaces: with one queue per CPU, RPS has no effect."""
    nodes = cluster.nodes() if MACHINES else []
    for node in nodes:
        set_queues(node, 1)
    yield
    for node in nodes:
        set_queues(node, 2)


@pytest.mark.skipif(not MACHINES, reason="a link of namespaces has one queue")
def test_queues_that_come_and_go_are_tuned(tuning: Tuning) -> None:
    node, *_ = tuning.cluster.nodes()
    queues = "/sys/class/net/eth0/queues"

    def is_prepared(rps: str, *xps: str) -> bool:
        masks = [f"{queues}/rx-0/rps_cpus", *(f"{queues}/tx-{at}/xps_cpus" for at in (0, 1))]
        rows = tuning.audit(node)
        states = (rows[RPS, QUEUE]["state"], rows[XPS, "eth0/tx-0"]["state"])
        wanted = ("skipped", "ok") if xps else ("ok", "skipped")
        found = inside(node, "cat", *masks[: 1 + len(xps)]).split()
        return states == wanted and (found[0], *sorted(found[1:])) == (rps, *xps)

    apply(tuning, knobs={RPS: "0-1", XPS: "auto"})
    tuning.wait(lambda: is_prepared("3"), "packets of one queue on both CPUs")
    set_queues(node, 2)
    try:
        tuning.wait(lambda: is_prepared("0", "1", "2"), "a queue for each CPU")
    finally:
        set_queues(node, 1)
    tuning.wait(lambda: is_prepared("3"), "one queue again")


def test_a_wrong_profile_stops_at_the_first_node(tuning: Tuning) -> None:
    nodes = tuning.cluster.nodes()
    apply(tuning)
    values = {"mode": "apply", "profile": "custom", "knobs": {RPS: "the first two"}}
    result = tuning.install(check=False, patience=15, **values)
    assert result.returncode != 0

    def refusals() -> list[str]:
        """Profile errors logged by agents that are not ready."""
        logs = [
            tuning.cluster.kubectl("logs", pod["metadata"]["name"], check=False).stdout
            for pod in tuning.pods().values()
            if not Pod.of(pod).ready
        ]
        return [text for text in logs if RPS in text and "expected" in text]

    tuning.wait(refusals, "an agent that refuses the profile")
    ready = [Pod.of(pod).ready for pod in tuning.pods().values()]
    assert sorted(ready) == [False, True]
    # Nothing changed.
    assert all(is_tuned(node) for node in nodes)
    # An agent that does not run could not restore its node.
    apply(tuning)


def test_a_node_is_tainted_while_it_is_not_prepared(tuning: Tuning) -> None:
    first, *_ = nodes = tuning.cluster.nodes()
    apply(tuning, taint={"enabled": True})
    tuning.wait(lambda: not any(_taints(tuning, node) for node in nodes), "no taint")
    with locked(first):
        write(first, sysctl(TIME_WAIT), "77")
        tuning.wait(lambda: _taints(tuning, first), "a taint")
        assert _taints(tuning, first) == [("corelane/node", "unprepared", "NoSchedule")]
        locked_by = b"another node-tuner has the lock"
        tuning.wait(lambda: locked_by in ask(tuning.agent(first), "/readyz").body, "the reason")
        assert not any(_taints(tuning, node) for node in nodes if node != first)
    tuning.wait(lambda: not _taints(tuning, first), "no taint again")
    assert is_tuned(first)


@contextlib.contextmanager
def locked(node: str) -> Iterator[None]:
    """Holds the lock, like another tuner."""
    # The lock is inherited by the background process.
    holder = "setsid sleep 600 >/dev/null 2>&1 </dev/null"
    pid = inside(node, "sh", "-ec", f"exec 9>>{STATE}/lock; flock 9; {holder} & echo $!").strip()
    try:
        yield
    finally:
        inside(node, "kill", pid)


def _taints(tuning: Tuning, node: str) -> list[tuple[str, str, str]]:
    found = tuning.cluster.get("node", node)["spec"].get("taints", [])
    ours = (each for each in found if each["key"] == "corelane/node")
    return [(each["key"], each["value"], each["effect"]) for each in ours]


def test_a_pod_sysctl_is_refused_for_nodes(tuning: Tuning) -> None:
    # The chart must reject it, because the program would have no profile.
    values = {"mode": "apply", "profile": "custom", "knobs": {"net.core.somaxconn": "65535"}}
    result = tuning.install(check=False, **values)
    assert result.returncode != 0
    assert "unsafeSysctls of the charts service and gateway" in result.stderr


@pytest.fixture
def proven(tuning: Tuning, release: Release) -> Iterator[Tuning]:
    """Agents that may inspect pods, and replicas with their own sysctls.

    Pod Security "restricted" forbids unsafe sysctls, but the nodes allow this one.
    """
    label = "pod-security.kubernetes.io/enforce"
    namespace = ("namespace", release.cluster.namespace)
    release.cluster.kubectl("label", *namespace, f"{label}=privileged", "--overwrite")
    try:
        release.upgrade(strings=(r"service.unsafeSysctls.net\.core\.somaxconn=65535",))
        release.cluster.wait_for_pods("server", 2)
        apply(tuning, nofile=1024)
        yield tuning
    finally:
        release.cluster.kubectl("label", *namespace, f"{label}=restricted", "--overwrite")


def test_the_pinning_of_each_pod_is_proven(proven: Tuning, release: Release) -> None:
    servers = release.cluster.ready_pods("server")
    for pod in servers:
        proven.wait(lambda pod=pod: _proof(proven, pod.node, pod.name)["proven"], "a proof")
        (container,) = _proof(proven, pod.node, pod.name)["containers"]
        checks = {check["check"]: check["state"] for check in container["checks"]}
        assert checks.pop("interrupts-elsewhere") in ("ok", "not-applicable")
        assert checks.pop("whole-cores") in ("ok", "not-applicable")
        assert checks == dict.fromkeys(
            ["cpus-exclusive", "no-cfs-quota", "open-files", "sysctls"], "ok"
        )
        text = proven.metrics(pod.node)
        assert f'pod="{pod.name}"' in text
    # Users and Helm can read the proofs.
    shown = proven.cluster.kubectl("exec", f"daemonset/{NAME}", "--", "/node-tuner", "proof")
    assert any(pod.name in shown.stdout for pod in servers)
    passed, said = proven.test()
    assert passed, said

    # A limit higher than any process here may set.
    apply(proven, nofile=1 << 29)
    for pod in servers:
        proven.wait(
            lambda pod=pod: _proof(proven, pod.node, pod.name)["proven"] is False, "a refusal"
        )
    passed, said = proven.test()
    assert not passed
    assert "NOT PROVEN" in said


def _proof(tuning: Tuning, node: str, pod: str) -> dict:
    """An agent's report on a pod; unknown pods count as not proven."""
    found = [each for each in tuning.proof(node)["pods"] if each["pod"] == pod]
    return found[0] if found else {"proven": None, "containers": []}


def test_a_replica_with_connections_goes_last(tuning: Tuning, release: Release) -> None:
    """Without deletion costs, Kubernetes would remove the newest ready pod."""
    release.serve()
    cluster = release.cluster
    tuning.install(deletionCost={"enabled": True, "interval": "1s"})
    pods = cluster.items("pods", "--selector", "app.kubernetes.io/name=corelane-server")

    def ready_since(pod: dict) -> str:
        return next(
            each["lastTransitionTime"]
            for each in pod["status"]["conditions"]
            if each["type"] == "Ready"
        )

    first, last = (Pod.of(pod) for pod in sorted(pods, key=ready_since))

    def cost(pod: Pod) -> int:
        annotations = cluster.get("pod", pod.name)["metadata"].get("annotations", {})
        return int(annotations.get("controller.kubernetes.io/pod-deletion-cost", 0))

    with contextlib.ExitStack() as stack:
        # Without forwarding, only gateways can reach the replica.
        url = stack.enter_context(cluster.forwarded(last.name, 8080))
        for _ in range(40):
            client = Client(url)
            stack.callback(client.close)
            assert client.ask("/hello").status == 200
        eventually(lambda: cost(last) > cost(first), "costs", patience=ROLL_OUT, pause=PAUSE)
        release.upgrade("service.replicas=1")
        (left,) = cluster.wait_for_pods("server", 1)
    assert left.uid == last.uid
