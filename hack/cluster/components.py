"""The command line of every component."""

import sys
from pathlib import Path

from cluster import network, processes, records
from cluster.certificates import Certificates
from cluster.configuration import NodeFiles
from cluster.plan import API_PORT, CONTROL, Node, Plan
from cluster.programs import Programs
from cluster.settings import FOLDER

ETCD = "http://127.0.0.1:2379"


class Components:
    """Starts each component in the namespaces that it belongs to."""

    def __init__(
        self, plan: Plan, record: records.Record, programs: Programs, certs: Certificates
    ) -> None:
        self.plan, self.record, self.programs, self.certs = plan, record, programs, certs
        self.state = record.file.parent
        self.anchors: dict[str, int] = {}

    def _start(self, place: str, program: str, *arguments: object, name: str = "") -> None:
        argv = [*network.inside(self.anchors[place]), self.programs[program], *arguments]
        environment = self.programs.environment()
        processes.start(self.record, f"{place}-{name or program}", argv, environment)

    def etcd(self, folder: Path) -> None:
        """etcd, which listens in the control plane's namespace only."""
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
        """The API server, with the default admission plugins and the nodes' own."""
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
        )

    def controller_manager(self) -> None:
        """The controllers."""
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
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )

    def scheduler(self) -> None:
        """The scheduler."""
        self._start(
            CONTROL,
            "kube-scheduler",
            f"--kubeconfig={self.certs.kubeconfig('scheduler')}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )

    def policies(self) -> None:
        """The process that enforces NetworkPolicies, see policies.py."""
        argv = [*network.inside(self.anchors[CONTROL]), sys.executable, FOLDER, "policies"]
        environment = {**self.programs.environment(), "CLUSTER_STATE": str(self.state)}
        processes.start(self.record, f"{CONTROL}-policies", argv, environment)

    def containerd(self, node: Node, files: NodeFiles) -> None:
        """The node's own container runtime."""
        self._start(node.name, "containerd", "--config", files.containerd)

    def kubelet(self, node: Node, files: NodeFiles) -> None:
        """The node's kubelet."""
        self._start(
            node.name,
            "kubelet",
            f"--config={files.kubelet}",
            f"--kubeconfig={self.certs.kubeconfig(node.name)}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
            f"--root-dir={files.kubelet_root}",
            f"--cert-dir={files.folder / 'certificates'}",
        )

    def proxy(self, node: Node, files: NodeFiles) -> None:
        """The node's kube-proxy."""
        self._start(node.name, "kube-proxy", f"--config={files.proxy}")
