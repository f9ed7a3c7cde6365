"""Obtains the cluster's programs and their environment."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools import resolve

KUBERNETES = (
    "kubectl",
    "kubelet",
    "kube-proxy",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
)
TOOLS = (*KUBERNETES, "coredns", "containerd", "ctr", "etcd", "ip", "openssl")


@dataclass(frozen=True)
class Programs:
    paths: dict[str, Path]

    def __getitem__(self, name: str) -> Path:
        return self.paths[name]

    @property
    def unpacked(self) -> Path:
        return self.paths["containerd"].parent.parent

    @property
    def plugins(self) -> Path:
        return self.unpacked / "usr/lib/cni"

    def environment(self) -> dict[str, str]:
        """Unpacked programs find each other and their libraries in the folders where they were
        unpacked.
        """
        folders = [self.unpacked / "usr/sbin", self.unpacked / "usr/bin"]
        system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        libraries = [str(folder) for folder in sorted(self.unpacked.glob("usr/lib/*-linux-gnu"))]
        libraries += [str(folder) for folder in sorted(self.unpacked.glob("lib/*-linux-gnu"))]
        return {
            "PATH": ":".join([*map(str, folders), *system]),
            "LD_LIBRARY_PATH": ":".join(libraries),
            "HOME": os.environ.get("HOME", "/root"),
            "LANG": "C.UTF-8",
        }

    def version(self, name: str) -> str:
        result = subprocess.run(
            [self[name], "--version"], capture_output=True, text=True, check=True
        )
        return result.stdout.split()[-1]


def obtain() -> Programs:
    return Programs(resolve.ensure(TOOLS))
