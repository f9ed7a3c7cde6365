"""`node-tuner generate` and `knobs`: what does not belong to the host, as files to use."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from support import PATIENCE, REPOSITORY, agents, trees
from support.rendering import template

UNSAFE = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_tw_reuse"]


def printed(*arguments: str) -> str:
    """What the program prints."""
    result = agents.run("node-tuner", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def generate(*arguments: str) -> str:
    """A file."""
    return printed("generate", *arguments)


@pytest.mark.parametrize("role", ["service", "gateway"])
def test_sysctls_of_pods_are_values_of_the_charts(role: str) -> None:
    safe = yaml.safe_load(generate(role))
    assert list(safe) == ["sysctls"]
    assert safe["sysctls"]["net.ipv4.tcp_fin_timeout"] == "20"
    assert not set(UNSAFE) & set(safe["sysctls"])
    both = yaml.safe_load(generate(role, "--unsafe"))
    assert both["sysctls"] == safe["sysctls"]
    expected = UNSAFE if role == "gateway" else UNSAFE[:2]
    assert list(both["unsafeSysctls"]) == expected
    assert all(isinstance(value, str) for value in both["unsafeSysctls"].values())
    # Whoever listens would ask for a shorter queue.
    length = int(both["unsafeSysctls"]["net.core.somaxconn"])
    if role == "service":
        assert both["config"] == {"backlog": length, "limits": {"queue": length}}
    else:
        assert both["listener"] == {"backlog": length}


@pytest.mark.parametrize("role", ["service", "gateway"])
def test_the_charts_take_the_values(role: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(generate(role, "--profile=web-100k"))
    result = template(role, values=values)
    assert result.returncode == 0, result.stderr
    assert "name: net.ipv4.tcp_fin_timeout" in result.stdout


def test_the_gateways_queue_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(generate("gateway", "--unsafe", "--profile=web-1m"))
    result = template("gateway", values=values)
    assert result.returncode == 0, result.stderr
    assert "tcp_backlog_size: 65535" in result.stdout


def test_the_kubelet_gets_a_snippet_with_the_steps() -> None:
    text = generate("kubelet", "--housekeeping=0-1")
    found = yaml.safe_load(text)
    assert yaml.safe_load(generate("kubelet", "--housekeeping=0-1", "--unsafe")) == {
        **found,
        "allowedUnsafeSysctls": UNSAFE,
    }
    assert found == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {
            "full-pcpus-only": "true",
            "strict-cpu-reservation": "true",
            "prefer-align-cpus-by-uncorecache": "true",
        },
        "reservedSystemCPUs": "0-1",
        "topologyManagerPolicy": "best-effort",
    }
    words = ("kubectl drain", "systemctl stop", "rm /var", "systemctl start", "kubectl uncordon")
    steps = [text.index(step) for step in words]
    assert steps == sorted(steps)


def test_what_the_kubelet_gets_is_what_audit_compares(tmp_path: Path) -> None:
    snippet = tmp_path / "kubelet.yaml"
    snippet.write_text(generate("kubelet", "--housekeeping=0-1", "--unsafe"))
    # Read once, as from `kubectl get --raw`.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["cp", snippet, pipe])
    tree = trees.make(tmp_path, trees.node())
    rows = tree.rows("audit", "--housekeeping=0-1", f"--kubelet-config={pipe}")
    assert writer.wait(PATIENCE) == 0
    states = {row["state"] for key, row in rows.items() if key.startswith("kubelet.")}
    assert states == {"ok"}


def test_the_static_policy_needs_reserved_cpus() -> None:
    result = agents.run("node-tuner", "generate", "kubelet")
    assert result.returncode == 64
    assert "such as --housekeeping=0-1" in result.stderr


def test_containerd_gets_a_drop_in() -> None:
    lines = generate("containerd", "--profile=web-1m").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "[Service]",
        "LimitNOFILE=1024:2097152",
    ]
    # systemd's own is more than these need.
    assert generate("containerd").startswith("# Nothing")


def test_the_kernel_gets_words() -> None:
    assert generate("boot", "--profile=web-1m") == "thash_entries=1048576\n"
    assert generate("boot").startswith("# Nothing")
    words = generate("boot", "--profile=custom", "--knobs=boot.thash_entries=2048")
    assert words == "thash_entries=2048\n"


def test_the_document_is_what_the_program_prints() -> None:
    # node-tuner knobs > docs/node-tuning-knobs.md
    document = (REPOSITORY / "docs/node-tuning-knobs.md").read_text()
    assert printed("knobs") == document


def test_programs_can_read_the_catalogue() -> None:
    knobs = json.loads(printed("knobs", "--output=json"))["knobs"]
    by_name = {knob["name"]: knob for knob in knobs}
    assert {knob["class"] for knob in knobs} == {"host", "pod", "kubelet", "runtime", "boot"}
    assert by_name["net.ipv4.tcp_rmem"]["safe"] == "1.32"
    assert by_name["net.core.somaxconn"]["safe"] is None
    assert by_name["net.core.netdev_max_backlog"]["profiles"]["web-10k"] == "4000"
