"""What is compared: the kernel's defaults, and the sysctls that the node tuner has for pods."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.tuning.networks import Pair
from tools.errors import ToolError

DEFAULTS = "kernel's defaults"
UNSAFE = ", unsafe too"
"""What is added to the name of a profile with the sysctls that a kubelet has to allow."""

SOMAXCONN = "net.core.somaxconn"
BACKLOG = 4096
"""The server's own default, which is also the kernel's of somaxconn."""

SHOWN = (SOMAXCONN, "net.ipv4.tcp_max_syn_backlog", "net.ipv4.ip_local_port_range")
"""What is read of the defaults, to be told in the report."""


@dataclass(frozen=True)
class Arm:
    """Sysctls of both sides, and the accept queue that the server asks for."""

    name: str
    backlog: int = BACKLOG
    server: dict[str, str] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)

    def write(self, pair: Pair) -> None:
        """Sets the sysctls in the two namespaces."""
        for side, sysctls in ((pair.server, self.server), (pair.client, self.client)):
            for name, value in sysctls.items():
                side.write(name, value)


def arms(tuner: Path, profile: str) -> list[Arm]:
    """All; the profile's sysctls of the gateway are for who opens connections."""
    found = [Arm(DEFAULTS)]
    for name, flags in ((profile, []), (f"{profile}{UNSAFE}", ["--unsafe"])):
        server, client = (_generated(tuner, profile, pods, flags) for pods in ("server", "gateway"))
        found.append(Arm(name, int(server.get(SOMAXCONN, BACKLOG)), server, client))
    return found


def _generated(tuner: Path, profile: str, pods: str, flags: list[str]) -> dict[str, str]:
    """The sysctls for these pods, as the node tuner prints them for a values file."""
    argv = [tuner, "--profile", profile, "generate", pods, *flags]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = dict(re.findall(r'^ +([a-z]\S+): "([^"]*)"$', result.stdout, re.MULTILINE))
    if result.returncode != 0 or not found:
        raise ToolError(f"node-tuner generate {pods} printed no sysctls: {result.stderr.strip()}")
    return found
