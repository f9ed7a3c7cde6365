"""What the charts say of knobs, against the catalogue of the program."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from support import REPOSITORY, agents
from support.rendering import render, template

PROGRAM = "node-tuner"
DEFINITIONS = yaml.safe_load((REPOSITORY / "hack/charts/definitions.yaml").read_text())
UNSAFE = set(DEFINITIONS["unsafeSysctls"]["properties"])
PROFILES = ("web-10k", "web-100k", "web-1m")


@cache
def catalogue() -> dict[str, str]:
    """The class of every knob."""
    printed = agents.run(PROGRAM, "knobs", "--output=json").stdout
    return {knob["name"]: knob["class"] for knob in json.loads(printed)["knobs"]}


def with_knobs(folder: Path, **knobs: str) -> Path:
    """Values with these knobs: --set would split their names at the dots."""
    file = folder / "values.yaml"
    file.write_text(json.dumps({"knobs": knobs, "housekeeping": "0"}))
    return file


def test_every_knob_of_pods_is_refused_with_the_words_of_its_place(tmp_path: Path) -> None:
    pods = {name for name, group in catalogue().items() if group == "pod"}
    assert pods
    for name in pods:
        result = template("node-tuning", values=with_knobs(tmp_path, **{name: "1"}))
        assert result.returncode != 0, name
        (place,) = re.findall(r"Set it in (\w+)|leave it off everywhere", result.stderr)
        if name != "net.ipv4.tcp_migrate_req":
            assert place == ("unsafeSysctls" if name in UNSAFE else "sysctls"), name


def test_no_knob_of_nodes_is_refused(tmp_path: Path) -> None:
    host = [name for name, group in catalogue().items() if group == "host"]
    assert host
    file = with_knobs(tmp_path, **dict.fromkeys(host, "auto"))
    written = yaml.safe_load(render("node-tuning", values=file)["ConfigMap"]["data"]["config.yaml"])
    assert written["knobs"].keys() == set(host)


def test_unsafe_sysctls_of_the_charts_are_knobs_of_pods() -> None:
    assert {catalogue().get(name) for name in UNSAFE} == {"pod"}


@pytest.mark.parametrize("chart", ["server", "gateway"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_charts_take_what_is_generated_for_them(
    chart: str, profile: str, tmp_path: Path
) -> None:
    generated = agents.run(PROGRAM, "generate", chart, "--unsafe", f"--profile={profile}")
    assert generated.returncode == 0, generated.stderr
    (tmp_path / "values.yaml").write_text(generated.stdout)
    wanted = yaml.safe_load(generated.stdout)
    deployment = render(chart, values=tmp_path / "values.yaml")["Deployment"]
    sysctls = deployment["spec"]["template"]["spec"]["securityContext"]["sysctls"]
    found = {entry["name"]: entry["value"] for entry in sysctls}
    assert found == wanted["sysctls"] | wanted["unsafeSysctls"]
    assert set(wanted["unsafeSysctls"]) <= UNSAFE
