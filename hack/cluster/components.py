"""Writes every component's configuration files and command line: mostly JSON, which is also YAML."""

import json
import sys
from pathlib import Path
from string import Template

from cluster import network, records
from cluster.certificates import Certificates
from cluster.plan import API_PORT, CONTROL, Node, Plan, cpu_text
from cluster.programs import Programs
from cluster.settings import FOLDER

PAUSE = "corelane-pause:cluster"
COREDNS = "corelane-coredns:cluster"

UNSAFE_SYSCTLS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_tw_reuse",
)
"""Kubernetes calls sysctls unsafe if they may affect the node. These sysctls belong to the network
namespace.
"""


class NodeFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = self.folder / "containerd.sock"
        self.containerd = self.folder / "containerd.toml"
        self.kubelet = self.folder / "kubelet.yaml"
        self.kubelet_root = self.folder / "kubelet"
        self.proxy = self.folder / "kube-proxy.yaml"
        self.cni = self.folder / "cni"
        self.resolv = self.folder / "resolv.conf"


def write(
    plan: Plan, node: Node, files: NodeFiles, certs: Certificates, programs: Programs
) -> None:
    files.cni.mkdir(parents=True)
    (files.cni / "10-corelane.conflist").write_text(_json(_cni(node, files)))
    files.containerd.write_text(_containerd(files, programs))
    files.kubelet.write_text(_json(_kubelet(plan, node, files, certs)))
    files.proxy.write_text(_json(_proxy(plan, node, certs)))
    # Pods do not inherit the host's search domains.
    files.resolv.write_text("")


def _json(content: dict) -> str:
    return json.dumps(content, indent=1)


def _containerd(files: NodeFiles, programs: Programs) -> str:
    template = Template((FOLDER / "containerd.toml").read_text())
    values = {"folder": files.folder, "socket": files.socket, "pause": PAUSE}
    values |= {"cni": files.cni, "bin": programs.plugins}
    # TOML strings use JSON's escapes.
    return template.substitute({key: json.dumps(str(each))[1:-1] for key, each in values.items()})


def _cni(node: Node, files: NodeFiles) -> dict:
    addresses = {
        "type": "host-local",
        "dataDir": str(files.folder / "addresses"),
        "ranges": [[{"subnet": str(node.pods)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    pod_link = {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "corelane", "plugins": [pod_link]}


def _kubelet(plan: Plan, node: Node, files: NodeFiles, certs: Certificates) -> dict:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": str(certs.crt("ca"))}},
        "tlsCertFile": str(certs.crt(node.name)),
        "tlsPrivateKeyFile": str(certs.key(node.name)),
        "containerRuntimeEndpoint": f"unix://{files.socket}",
        "cgroupDriver": "cgroupfs",
        # Since 1.35, a kubelet exits on cgroup v1 without this setting (KEP-5573).
        "failCgroupV1": False,
        "cgroupRoot": "/" if plan.machines else f"/{node.cgroup}",
        "cpuManagerPolicy": "static",
        **_reservation(node),
        "allowedUnsafeSysctls": list(UNSAFE_SYSCTLS),
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # Kubelets that share a folder would delete each other's logs.
        "podLogsDir": str(files.folder / "pods"),
        "volumePluginDir": str(files.folder / "volume-plugins"),
        "resolvConf": str(files.resolv),
        "clusterDNS": [str(plan.dns)],
        "clusterDomain": "cluster.local",
        **({} if plan.machines else _no_eviction()),
        # If the kubelet deleted an image because the disk was full, there would be no registry to
        # pull it from again.
        "imageMinimumGCAge": "24h",
        # Pods without exclusive CPUs then vacate a new exclusive pod's CPUs faster than the default
        # of 10 s.
        "cpuManagerReconcilePeriod": "1s",
        # A container with a limit then runs on a slower CPU instead of stopping for most of 100 ms.
        # Many replicas on a few CPUs therefore behave like replicas with one CPU each.
        "cpuCFSQuotaPeriod": "10ms",
        "featureGates": {"CustomCPUCFSQuotaPeriod": True},
    }


def _no_eviction() -> dict:
    """Disables eviction: the machine owns the disk, and a full disk must not evict pods or delete
    images.
    """
    never = {"memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%"}
    never |= {"imagefs.available": "0%", "imagefs.inodesFree": "0%"}
    return {"evictionHard": never, "imageGCHighThresholdPercent": 100}


def _reservation(node: Node) -> dict:
    """The CPUs that are never exclusive.

    If the reservation is a number, the kubelet rounds it up and reserves the first CPUs. If the
    first CPUs are the right ones, the number is half a CPU lower, so that other pods can request
    that half alongside exclusive pods. On a busy CPU, a pod that requests no CPU has almost no
    weight against the system.
    """
    if sorted(node.reserved) == sorted(node.cpus)[: len(node.reserved)]:
        return {"kubeReserved": {"cpu": f"{len(node.reserved) * 1000 - 500}m"}}
    return {"reservedSystemCPUs": cpu_text(node.reserved)}


def _proxy(plan: Plan, node: Node, certs: Certificates) -> dict:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(certs.kubeconfig("proxy"))},
        "hostnameOverride": node.name,
        "clusterCIDR": str(plan.pods),
        "nftables": {"minSyncPeriod": "0s"},
        "oomScoreAdj": 0,
        # These sysctls belong to the machine, not to the namespace.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


ETCD = "http://127.0.0.1:2379"

AUTOSCALER = (
    "--horizontal-pod-autoscaler-sync-period=3s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=6s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1m",
)
"""A fifth of Kubernetes' defaults, so that autoscaling tests take minutes."""


class Components:
    def __init__(
        self, plan: Plan, record: records.Record, programs: Programs, certs: Certificates
    ) -> None:
        self.plan, self.record, self.programs, self.certs = plan, record, programs, certs
        self.state = record.file.parent
        self.anchors: dict[str, int] = {}

    def _start(self, place: str, program: str, *arguments: object, name: str = "") -> None:
        argv = [*network.inside(self.anchors[place]), self.programs[program], *arguments]
        environment = self.programs.environment()
        self.record.start(f"{place}-{name or program}", argv, environment)

    def etcd(self, folder: Path) -> None:
        """etcd listens only in the control plane's namespace."""
        peers = "http://127.0.0.1:2380"
        self._start(
            CONTROL,
            "etcd",
            f"--data-dir={folder}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--log-level=warn",
        )

    def api_server(self) -> None:
        certs = self.certs
        self._start(
            CONTROL,
            "kube-apiserver",
            f"--etcd-servers={ETCD}",
            f"--advertise-address={self.plan.control}",
            f"--secure-port={API_PORT}",
            f"--service-cluster-ip-range={self.plan.services}",
            f"--client-ca-file={certs.crt('ca')}",
            f"--tls-cert-file={certs.crt('api')}",
            f"--tls-private-key-file={certs.key('api')}",
            f"--kubelet-client-certificate={certs.crt('api-to-kubelet')}",
            f"--kubelet-client-key={certs.key('api-to-kubelet')}",
            f"--kubelet-certificate-authority={certs.crt('ca')}",
            # No DNS server resolves node names.
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certs.key('accounts')}",
            f"--service-account-signing-key-file={certs.key('accounts')}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # Route requests to aggregated APIs, such as the metrics API, directly to pods, because
            # kube-proxy is missing here.
            "--enable-aggregator-routing=true",
            f"--proxy-client-cert-file={certs.crt('front-proxy')}",
            f"--proxy-client-key-file={certs.key('front-proxy')}",
            f"--requestheader-client-ca-file={certs.crt('ca')}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        )

    def controller_manager(self) -> None:
        certs = self.certs
        self._start(
            CONTROL,
            "kube-controller-manager",
            f"--kubeconfig={certs.kubeconfig('controller-manager')}",
            f"--root-ca-file={certs.crt('ca')}",
            f"--service-account-private-key-file={certs.key('accounts')}",
            f"--cluster-signing-cert-file={certs.crt('ca')}",
            f"--cluster-signing-key-file={certs.key('ca')}",
            "--use-service-account-credentials=true",
            # Each controller first requests an account and a token, which takes seconds at 20
            # requests/s.
            "--kube-api-qps=200",
            "--kube-api-burst=300",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            *AUTOSCALER,
        )

    def scheduler(self) -> None:
        self._start(
            CONTROL,
            "kube-scheduler",
            f"--kubeconfig={self.certs.kubeconfig('scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )

    def policies(self) -> None:
        argv = [*network.inside(self.anchors[CONTROL]), sys.executable, FOLDER, "policies"]
        environment = {**self.programs.environment(), "CLUSTER_STATE": str(self.state)}
        self.record.start(f"{CONTROL}-policies", argv, environment)

    def of_node(self, node: Node, files: NodeFiles, program: str) -> None:
        self._start(node.name, program, *node_arguments(node, files, self.certs)[program])


def node_arguments(node: Node, files: NodeFiles, certs: Certificates) -> dict[str, list[str]]:
    return {
        "containerd": ["--config", str(files.containerd)],
        "kubelet": [
            f"--config={files.kubelet}",
            f"--kubeconfig={certs.kubeconfig(node.name)}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
            f"--root-dir={files.kubelet_root}",
            f"--cert-dir={files.folder / 'certificates'}",
        ],
        "kube-proxy": [f"--config={files.proxy}"],
    }
