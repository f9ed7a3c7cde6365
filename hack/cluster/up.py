"""`up`: starts the cluster and waits until a pod could use it."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import (
    cgroups,
    components,
    down,
    images,
    machines,
    network,
    places,
    records,
    requirements,
)
from cluster.api import Api, resolves
from cluster.certificates import Certificates
from cluster.components import Components, NodeFiles
from cluster.machines import Machines
from cluster.plan import CONTROL, Node, Plan, cpu_list, cpu_text, of_machines
from cluster.plan import make as make_plan
from cluster.programs import Programs, obtain
from cluster.settings import FOLDER, Settings, kind
from stack import in_time, pids
from stack.process import raise_open_files
from tools import progress
from tools.errors import ToolError

PATIENCE = 900.0
"""Time limit in seconds for each step. A few seconds are usually enough, but a busy or emulated
machine needs many.
"""

CNI_RESULTS = Path("/var/lib/cni")

PLUGINS = Path("/var/lib/kubelet")

NODE_STATE = Path("/var/lib/corelane")
"""Folder for the platform's files on a node, such as the node tuning journal."""

ONLINE = Path("/sys/devices/system/cpu/online")


def main(settings: Settings) -> int:
    """Does nothing if the cluster is up."""
    # SIGTERM unwinds like an interrupt, so that an aborted start leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    requirements.require_user()
    requirements.require_ours(settings.state)
    with pids.lock(settings.state):
        record = records.Record(settings.state)
        if _is_up(settings, record):
            return 0
        requirements.require_free(settings)
        requirements.require_machine(settings)
        plan = _plan(settings)
        programs = obtain()
        archives = images.own(programs)
        requirements.require_kernel(programs)
        # The builds may have taken minutes.
        requirements.require_free(settings)
        started = time.monotonic()
        try:
            Start(settings, plan, programs, record).run(archives)
        except BaseException as error:
            _give_up(settings, record, error)
            raise
        print(f"The cluster is up, after {time.monotonic() - started:.0f} s.")
        print(describe(settings))
    return 0


def _plan(settings: Settings) -> Plan:
    if kind() == "vm":
        return of_machines(settings.network, machines.CPUS)
    return make_plan(settings.network, cgroups.usable_cpus(settings.cgroups))


def _is_up(settings: Settings, record: records.Record) -> bool:
    left = down.find(settings, {})
    if not record.exists and not left:
        return False
    entries = record.content.get("processes", {})
    dead = [name for name, entry in entries.items() if not pids.alive(entry)]
    restarted = record.exists and record.content.get("boot") != records.boot()
    if record.content.get("complete") and not dead and not restarted:
        print("The cluster is up already.")
        print(describe(settings))
        return True
    if restarted or not down.pids(settings, record.content.get("namespaces", {})):
        # No part of the cluster is running: the machine restarted, or all processes were killed.
        progress.say("cluster", "an earlier cluster has ended; removing what it left")
        down.stop(settings, record)
        record.content.clear()
        return False
    if dead:
        what = f"is up only in part, these ended: {', '.join(dead)} (logs: {settings.state}/logs)"
    else:
        what = f"was not started to the end; {len(left)} things of it are left, as {left[:1]}"
    raise ToolError(f"an earlier cluster {what}. Run make cluster-down first")


def _give_up(settings: Settings, record: records.Record, error: BaseException) -> None:
    print(f"  up failed ({type(error).__name__}); taking down what was started", file=sys.stderr)
    try:
        down.stop(settings, record)
    except ToolError as left:
        print(f"hack/cluster: {left}", file=sys.stderr)


def describe(settings: Settings) -> str:
    file = records.kubeconfig(settings.state)
    return "\n".join(
        [
            "",
            f"  export KUBECONFIG={file}",
            "  $(python3 hack/tools path kubectl) get nodes -o wide",
            "  make cluster-status",
            "  make cluster-down",
        ]
    )


class Start:
    def __init__(
        self, settings: Settings, plan: Plan, programs: Programs, record: records.Record
    ) -> None:
        self.settings, self.plan, self.programs, self.record = settings, plan, programs, record
        self.state = settings.state
        self.certs = Certificates(self.state, programs["openssl"])
        self.files = {node.name: NodeFiles(self.state / node.name) for node in plan.nodes}
        self.components = Components(plan, record, programs, self.certs)
        self.machines = Machines(plan, record, programs, self.certs)

    def run(self, archives: list[Path]) -> None:
        raise_open_files()
        for log in (self.state / "logs").glob("*.log"):
            log.unlink()
        self.record.save(
            boot=records.boot(),
            complete=False,
            processes={},
            namespaces={},
            machines=self.plan.machines,
        )
        with progress.step("cluster", "namespaces, links, certificates"):
            self._places()
            self.certs.make(self.plan)
        with progress.step("cluster", "control plane and nodes"):
            self._control_plane(archives)
        with progress.step("cluster", "CoreDNS"):
            self._dns()
        self.record.save(complete=True)
        # Everything is up, so there is nothing left to undo.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _places(self) -> None:
        # The node's own mounts hide them.
        missing = [folder for folder in (CNI_RESULTS, NODE_STATE, PLUGINS) if not folder.exists()]
        self.record.save(made_folders=[str(folder) for folder in missing])
        for folder in missing:
            folder.mkdir()
        anchors = self.components.anchors
        for name in (CONTROL, *(() if self.plan.machines else self.files)):
            anchors[name] = network.anchor(self.record, self.programs, name)
        network.connect(self.state, self.plan, self.programs, anchors)
        self._mount(CONTROL, f"mkdir {self.state}/etcd; mount -t tmpfs etcd {self.state}/etcd")
        for node in self.plan.nodes:
            components.write(self.plan, node, self.files[node.name], self.certs, self.programs)
        if not self.plan.machines:
            self._namespaces()

    def _namespaces(self) -> None:
        for node in self.plan.nodes:
            # Hard-coded paths of containerd, runc, libcni and the kubelet: give each node its own.
            log, own = (self.files[node.name].folder / name for name in ("log", "corelane"))
            self._mount(
                node.name,
                f"mkdir {log} {own}; mount --bind {log} /var/log; mount --bind {own} {NODE_STATE}; "
                f"mount -t tmpfs run /run; mount -t tmpfs cni {CNI_RESULTS}; "
                f"mount -t tmpfs kubelet {PLUGINS}",
            )
            # Pods on the node's network share the superblock of the first mount. If a container
            # mounted it first, it would be read-only, and privileged pods could not write to it
            # either. Do not mount it over /sys, which contains the cgroups.
            sys = self.files[node.name].folder / "sys"
            self._mount(node.name, f"mkdir {sys}; mount -t sysfs sys {sys}")
            self._own_cpus(node)

    def _own_cpus(self, node: Node) -> None:
        """Shows the kubelet only this node's CPUs, because it uses all CPUs that the kernel lists
        as online."""
        if node.cpus != cpu_list(ONLINE.read_text()):
            online = self.files[node.name].folder / "online"
            online.write_text(f"{cpu_text(node.cpus)}\n")
            self._mount(node.name, f"mount --bind {online} {ONLINE}")
        cgroups.create(self.settings.cgroups, node.cgroup, node.cpus)

    def _mount(self, name: str, script: str) -> None:
        inside = network.inside(self.components.anchors[name])
        subprocess.run([*inside, "sh", "-ec", script], check=True)

    def _control_plane(self, archives: list[Path]) -> None:
        self.components.etcd(self.state / "etcd")
        self.components.api_server()
        for node in self.plan.nodes:
            self._containerd(node)
        with ThreadPoolExecutor() as pool:
            imported = pool.submit(self._import, archives)
            self.api = Api.of(self.state)
            self._wait("the API server", self.api.ready, "control-kube-apiserver")
            self.components.controller_manager()
            self.components.scheduler()
            self.components.policies()
            self._nodes()
            # If images were missing, the kubelet would not retry their pods for a while.
            imported.result()

    def _containerd(self, node: Node) -> None:
        if self.plan.machines:
            self.machines.make(node, self.files[node.name])
            self.machines.start(node, self.components.anchors[CONTROL])
        else:
            self.components.of_node(node, self.files[node.name], "containerd")

    def _import(self, archives: list[Path]) -> None:
        self._wait_for_containerd()
        images.load(self.record, self.programs, archives)

    def _wait_for_containerd(self) -> None:
        for node in self.plan.nodes:
            self._wait(
                f"containerd of {node.name}", lambda node=node: self._listens(node), node.name
            )

    def _listens(self, node: Node) -> bool:
        argv = [*places.inside(self.record, node.name), "test", "-S", self.files[node.name].socket]
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0

    def _nodes(self) -> None:
        """Starts the programs that register the nodes; a machine starts them by itself."""
        if self.plan.machines:
            return
        self._wait_for_containerd()
        for node in self.plan.nodes:
            for program in ("kubelet", "kube-proxy"):
                self.components.of_node(node, self.files[node.name], program)

    def _dns(self) -> None:
        manifest = (FOLDER / "coredns.yaml").read_text().replace("{dns}", str(self.plan.dns))
        argv = [self.programs["kubectl"], "--kubeconfig", records.kubeconfig(self.state), "apply"]
        result = subprocess.run(
            [*argv, "-f", "-"], input=manifest, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise ToolError(f"kubectl cannot apply coredns.yaml: {result.stderr.strip()}")
        for node in self.plan.nodes:
            self._wait(
                f"node {node.name}",
                lambda name=node.name: name in self.api.ready_nodes(),
                f"{node.name}-kubelet",
            )
        dns = str(self.plan.dns)
        self._wait(
            "CoreDNS",
            lambda: resolves(dns, "kubernetes.default.svc.cluster.local"),
            "node1-kubelet",
        )

    def _wait(self, what: str, condition: Callable[[], bool], log: str) -> None:
        """If the process exits or the deadline passes, the error shows the process's log."""

        def settled() -> bool:
            return bool(self._ended()) or condition()

        done = in_time(settled, PATIENCE, 0.1)
        ended = self._ended()
        if ended or not done:
            file = records.log(self.state, ended[0] if ended else log)
            lines = "\n".join(f"    {line}" for line in progress.tail(file, 15))
            why = f"{ended[0]} ended" if ended else f"{what} is not ready after {PATIENCE:.0f} s"
            raise ToolError(f"{why}; the end of {file}:\n{lines}")

    def _ended(self) -> list[str]:
        entries = dict(self.record.content["processes"])
        return [name for name, entry in entries.items() if not pids.alive(entry)]
