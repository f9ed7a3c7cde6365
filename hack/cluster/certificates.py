"""Creates new cluster certificates and kubeconfigs for each `up`."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import records
from cluster.plan import CONTROL, Plan
from tools import command

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
DAYS = ("-days", "365")


class Certificates:
    def __init__(self, state: Path, openssl: Path) -> None:
        self.state, self.folder, self.openssl = state, state / "pki", openssl

    def crt(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        """Returns the kubeconfig of a component; the administrator's is in another folder."""
        return records.kubeconfig(self.state) if name == "admin" else self.folder / f"{name}.conf"

    def make(self, plan: Plan) -> None:
        """Uses the groups bound to Kubernetes' default roles."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._request("ca", "/CN=corelane-cluster")
        self._run("genpkey", "-algorithm", "RSA", "-out", self.key("accounts"))
        api_names = [
            f"IP:{plan.control}",
            f"IP:{plan.services[1]}",
            "IP:127.0.0.1",
            f"DNS:{CONTROL}",
        ]
        api_names += ["DNS:kubernetes.default.svc", "DNS:kubernetes.default", "DNS:kubernetes"]
        wanted = {
            "api": ("/CN=kube-apiserver", api_names),
            "api-to-kubelet": ("/O=system:masters/CN=kube-apiserver-kubelet-client", []),
            "admin": ("/O=system:masters/CN=corelane-admin", []),
            "controller-manager": ("/CN=system:kube-controller-manager", []),
            "scheduler": ("/CN=system:kube-scheduler", []),
            "proxy": ("/CN=system:kube-proxy", []),
            "front-proxy": ("/CN=front-proxy", []),
        }
        for node in plan.nodes:
            names = [f"IP:{node.address}", f"DNS:{node.name}"]
            wanted[node.name] = (f"/O=system:nodes/CN=system:node:{node.name}", names)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda item: self._signed(plan, item[0], *item[1]), wanted.items()))

    def _signed(self, plan: Plan, name: str, subject: str, names: list[str]) -> None:
        extensions = ["-addext", "extendedKeyUsage=serverAuth,clientAuth"]
        extensions += ["-addext", "basicConstraints=critical,CA:FALSE"]
        if names:
            extensions += ["-addext", f"subjectAltName={','.join(names)}"]
        self._request(name, subject, "-CA", self.crt("ca"), "-CAkey", self.key("ca"), *extensions)
        self._write_kubeconfig(plan, name)

    def _request(self, name: str, subject: str, *more: object) -> None:
        files = ("-keyout", self.key(name), "-out", self.crt(name))
        self._run("req", "-x509", *KEY, *DAYS, "-subj", subject, *files, *more)

    def _run(self, *arguments: object) -> None:
        command.output([self.openssl, *arguments])

    def _write_kubeconfig(self, plan: Plan, name: str) -> None:
        cluster = {"server": plan.api, "certificate-authority-data": _base64(self.crt("ca"))}
        user = {
            "client-certificate-data": _base64(self.crt(name)),
            "client-key-data": _base64(self.key(name)),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "corelane", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "corelane", "context": {"cluster": "corelane", "user": name}}],
            "current-context": "corelane",
        }
        file = self.kubeconfig(name)
        file.touch(mode=0o600)
        # JSON is YAML.
        file.write_text(json.dumps(content, indent=1))


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
