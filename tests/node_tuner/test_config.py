"""Precedence of flags, environment and file in `node-tuner`; error messages name the setting."""

from pathlib import Path

import pytest

from stack import programs
from stack.node import Tree

FILES = "fs.file-max"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    tree: Tree, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("profile: web-1m\noutput: json\n")
    config = f"--config={file}"
    says = [tree.run("audit", config).stdout, tree.run("audit", NODE_TUNER_CONFIG=str(file)).stdout]
    assert all('"profile": "web-1m"' in text for text in says)
    assert '"web-100k"' in tree.run("audit", config, NODE_TUNER_PROFILE="web-100k").stdout
    both = tree.run("audit", config, "--profile=custom", NODE_TUNER_PROFILE="web-100k")
    assert '"custom"' in both.stdout


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "profile: custom\nknobs: {fs.file-max: 300000, irq.affinity: 0-1}",
            [FILES, "irq.affinity"],
        ),
        ("profile: custom\nknobs:\n  fs.file-max: '300000'", [FILES]),
        ("profile: custom\nknobs: {fs.file-max: 300000, vm.transparent_hugepage: off}", [FILES]),
        ("profile: custom\nknobs: {}", []),
    ],
)
def test_knobs_are_a_map_in_the_file(
    tree: Tree, tmp_path: Path, text: str, wanted: list[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    rows = tree.report("audit", f"--config={file}")["knobs"]
    assert list(dict.fromkeys(row["name"] for row in rows)) == wanted


@pytest.mark.parametrize(
    "flags",
    [
        ["--knobs=fs.file-max=300000,irq.affinity=0,2-3,fs.nr_open=2000000"],
        ["--knobs=fs.file-max=300000", "--knobs=irq.affinity=0,2-3", "--knobs=fs.nr_open=2000000"],
        ["--knobs=fs.file-max=300000;irq.affinity=0,2-3;fs.nr_open=2000000"],
    ],
)
def test_knobs_are_repeated_or_have_commas_between_them(tree: Tree, flags: list[str]) -> None:
    rows = tree.rows("audit", "--profile=custom", *flags)
    assert {key: row["wanted"] for key, row in rows.items()} == {
        FILES: "300000",
        "fs.nr_open": "2000000",
        "irq.affinity eth0/40": "0,2-3",
        "irq.affinity eth0/41": "0,2-3",
    }


def test_the_environment_has_knobs_too(tree: Tree) -> None:
    variables = {"NODE_TUNER_PROFILE": "custom", "NODE_TUNER_KNOBS": f"{FILES}=300000"}
    assert f"{FILES} " in tree.run("audit", status=2, **variables).stdout


BAD = [
    ("--profile=web-2m", ["web-2m", "web-10k, web-100k, web-1m, custom"]),
    ("--knobs=fs.file-max", ["fs.file-max", "expected NAME=VALUE"]),
    ("--knobs=fs.file-max=many", ['fs.file-max = "many"', "a whole number from 8192"]),
    ("--knobs=fs.filemax=1", ["fs.filemax", "unknown setting; did you mean fs.file-max?"]),
    ("--knobs=some.thing=1", ["some.thing", "`node-tuner knobs` lists all"]),
    ("--knobs=vm.transparent_hugepage=maybe", ["maybe", "always, madvise, never, or off"]),
    ("--knobs=irq.affinity=all", ['irq.affinity = "all"', "a list of CPUs, such as 0-1,4"]),
    ("--knobs=net.ipv4.tcp_mem=3 2 1", ["three whole numbers", "that do not fall"]),
    ("--knobs=net.xps_cpus=1", ["net.xps_cpus", "expected auto"]),
    ("--housekeeping=first", ['housekeeping = "first"', "a list of CPUs"]),
    ("--housekeeping=3-1", ['housekeeping = "3-1"', "a list of CPUs"]),
    ("--kubelet-config=/none", ["kubelet-config = /none", "No such file"]),
    ("--output=xml", ["xml", "table, json"]),
    ("--config=/none", ["/none", "No such file"]),
]


@pytest.mark.parametrize(("flag", "words"), BAD)
def test_a_bad_value_names_what_is_allowed(tree: Tree, flag: str, words: list[str]) -> None:
    before = tree.snapshot()
    for command in ("audit", "apply"):
        result = tree.run(command, flag, status=64)
        assert all(word in result.stderr for word in words), result.stderr
    assert tree.snapshot() == before


def test_a_root_that_is_not_there_is_refused() -> None:
    result = programs.run("node-tuner", "audit", "--root=/none")
    assert result.returncode == 64
    assert 'root = "/none": expected an existing folder' in result.stderr


@pytest.mark.parametrize("profile", ["web-10k", "custom"])
@pytest.mark.parametrize(
    ("sysctl", "value", "how"),
    [
        ("net.core.somaxconn", "65535", 'set `unsafeSysctls: {net.core.somaxconn: "65535"}`'),
        ("net.ipv4.ip_local_port_range", "1024 65535", "set `sysctls: {net.ipv4.ip_local_port"),
        ("net.ipv4.tcp_rmem", "1 2 3", "from Kubernetes 1.32 on"),
    ],
)
def test_a_sysctl_of_pods_is_refused_with_where_it_belongs(
    tree: Tree, profile: str, sysctl: str, value: str, how: str
) -> None:
    before = tree.snapshot()
    for command in ("audit", "apply", "agent"):
        result = tree.run(command, f"--profile={profile}", f"--knobs={sysctl}={value}", status=64)
        assert f'{sysctl} = "{value}": not a setting of the host' in result.stderr
        assert "charts/service or charts/gateway" in result.stderr
        assert how in result.stderr
    assert tree.snapshot() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profil: web-1m", ["profil", "unknown key", "profile"]),
        ("agent: {mod: audit}", ["agent.mod", "unknown key", "agent.mode"]),
        ("profile: [web-1m, custom]", ["profile", "expected one value"]),
        ("profile: {name: web-1m}", ["profile.name", "unknown key"]),
        ("profile: web-2m", ["web-2m", "web-10k, web-100k, web-1m, custom"]),
        ("knobs: {net.core.somaxconn: 65535}", ["net.core.somaxconn", "charts/service"]),
        ("knobs: [fs.file-max]", ["NAME=VALUE"]),
        ("config: other.yaml", ["config", "unknown key"]),
        ("just words", ["a map of settings"]),
        ("profile: [", ["config.yaml"]),
    ],
)
def test_a_bad_file_is_refused(tree: Tree, tmp_path: Path, text: str, words: list[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    result = tree.run("audit", f"--config={file}", status=64)
    assert all(word in result.stderr for word in words), result.stderr


def test_a_misspelt_variable_is_refused(tree: Tree) -> None:
    result = tree.run("audit", NODE_TUNER_PROFIL="web-1m", status=64)
    assert "NODE_TUNER_PROFIL" in result.stderr
    assert "NODE_TUNER_PROFILE" in result.stderr


def test_settings_can_be_checked_without_doing_anything(tree: Tree) -> None:
    before = tree.snapshot()
    assert tree.run("apply", "--check", status=0).stdout == ""
    tree.run("apply", "--check", "--knobs=net.core.somaxconn=1", status=64)
    assert tree.snapshot() == before


def test_help_says_what_can_be_said() -> None:
    text = programs.run("node-tuner", "--help").stdout
    for command in ("audit", "plan", "apply", "restore", "agent", "proof", "generate", "knobs"):
        assert f"\n  {command} " in text
    for flag in ("profile", "knobs", "root", "journal", "housekeeping", "interfaces", "output"):
        assert f"--{flag} " in text
        assert f"NODE_TUNER_{flag.upper()}" in text


def test_no_limit_of_open_files_is_above_the_kernels(tree: Tree) -> None:
    result = tree.run("audit", "--knobs=fs.nr_open=4000000,containerd.nofile=8000000", status=64)
    assert "containerd.nofile = 8000000" in result.stderr
    assert "fs.nr_open = 4000000" in result.stderr
    result = tree.run("audit", "--knobs=fs.nr_open=8000000,containerd.nofile=8000000")
    assert result.returncode == 2
