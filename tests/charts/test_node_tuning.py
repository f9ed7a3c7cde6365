"""The node-tuning chart: its file as parsed by the program, and its permissions on an API server.

No controller runs, so neither do agents; tests/node_tuner and tests/e2e cover those.
"""

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from charts import renders
from stack import REPOSITORY, programs
from stack.apiserver import Api
from stack.rendering import documents, is_hook, render, template

PROGRAM = "node-tuner"
CASES = [case for case in renders.cases() if case.chart == "node-tuning"]

NOT_IN_THE_FILE = {"config", "check", "output", "help", "version"}
"""Flags without a counterpart in the agent's settings."""
FROM_THE_POD = {"agent.mode", "agent.node", "agent.listen"}
LEFT_OUT = {"agent.kubeconfig", "kubelet-config"}
"""Pods discover their API server, and only users pass the kubelet's file."""


def agent(objects: dict[str, dict]) -> dict:
    (only,) = objects["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    return only


def variables(container: dict) -> dict[str, str]:
    known = {"spec.nodeName": "node1", "status.hostIP": "10.0.0.1"}
    found: dict[str, str] = {}
    for entry in container["env"]:
        value = entry.get("value") or known[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        # Kubernetes expands references to earlier variables.
        found[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda it: found[it[1]], value)
    return found


def checked(folder: Path, objects: dict[str, dict]) -> str:
    """Returns the program's validation errors."""
    container = agent(objects)
    (folder / "config.yaml").write_text(objects["ConfigMap"]["data"]["config.yaml"])
    environment = variables(container)
    assert environment["NODE_TUNER_CONFIG"] == "/etc/node-tuner/config.yaml"
    environment["NODE_TUNER_CONFIG"] = str(folder / "config.yaml")
    result = programs.run(PROGRAM, *container["args"], "--check", **environment)
    assert (result.returncode == 0) == (not result.stderr)
    return result.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_program_takes_the_file(case: renders.Case, tmp_path: Path) -> None:
    objects = [each for each in renders.render(case) if not is_hook(each)]
    assert checked(tmp_path, {each["kind"]: each for each in objects}) == ""


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "fd00::1"])
def test_the_program_takes_the_address(address: str, tmp_path: Path) -> None:
    assert checked(tmp_path, render("node-tuning", f"address={address}")) == ""


def test_the_program_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    objects = render("node-tuning")
    objects["ConfigMap"]["data"]["config.yaml"] += "surprise: 1\n"
    assert "surprise" in checked(tmp_path, objects)


def test_every_setting_of_an_agent_has_its_value() -> None:
    flags = set(re.findall(r"--([a-z.-]+)", programs.run(PROGRAM, "agent", "--help").stdout))
    values = ("nofile=1", "mode=apply", "taint.enabled=true", "deletionCost.enabled=true")
    file = yaml.safe_load(render("node-tuning", *values)["ConfigMap"]["data"]["config.yaml"])
    keys = {key for key in file if key not in ("agent", "log")}
    keys |= {f"{part}.{key}" for part in ("agent", "log") for key in file[part]}
    assert keys | FROM_THE_POD == flags - NOT_IN_THE_FILE - LEFT_OUT
    assert keys.isdisjoint(FROM_THE_POD)


@pytest.mark.fast
def test_what_is_mounted_is_where_the_file_says() -> None:
    objects = render("node-tuning", "mode=apply")
    file = yaml.safe_load(objects["ConfigMap"]["data"]["config.yaml"])
    mounts = {each["name"]: each["mountPath"] for each in agent(objects)["volumeMounts"]}
    assert mounts["journal"] == file["journal"]
    assert mounts["cgroups"] == file["agent"]["cgroups"]


@pytest.mark.fast
def test_a_changed_file_rolls_the_agents() -> None:
    def checksum(*settings: str) -> str:
        metadata = render("node-tuning", *settings)["DaemonSet"]["spec"]["template"]["metadata"]
        return metadata["annotations"]["checksum/config"]

    assert checksum() == checksum("minReadySeconds=1")
    assert checksum() != checksum("profile=web-100k")


@pytest.mark.fast
def test_selectors_find_the_agents_and_nobody_else() -> None:
    objects = documents("node-tuning", "mode=apply", "podLabels.tier=b", release="shop")
    kinds = {each["kind"]: each for each in objects if not is_hook(each)}
    selector = kinds["DaemonSet"]["spec"]["selector"]["matchLabels"]
    assert selector == {
        "app.kubernetes.io/name": "corelane-node-tuning",
        "app.kubernetes.io/instance": "shop",
    }
    assert kinds["Service"]["spec"]["selector"] == selector
    labels = kinds["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()
    (test,) = (each for each in objects if each["kind"] == "Pod")
    assert not selector.items() <= test["metadata"]["labels"].items()


REGISTRY = "global.registry=images.example"


def may(api: Api, account: str, *question: str) -> bool:
    who = f"--as=system:serviceaccount:{account}"
    result = api.kubectl("auth", "can-i", *question, who)
    assert result.stdout.strip() in ("yes", "no"), result.stderr
    return result.stdout.strip() == "yes"


@pytest.mark.nightly
@pytest.mark.parametrize("taint", [False, True])
def test_the_agent_may_what_it_does_and_no_more(api: Api, taint: bool) -> None:
    with api.namespace("privileged") as namespace:
        # Cluster roles share one namespace.
        name = f"tuner-{namespace}"
        settings = ["--set", f"{REGISTRY},mode=apply,taint.enabled={taint},fullnameOverride={name}"]
        chart = renders.CHARTS / "node-tuning"
        here = ["--namespace", namespace]
        installed = api.helm("install", "shop", chart, *here, *settings)
        assert installed.returncode == 0, installed.stderr
        account = f"{namespace}:{name}"
        for question in (
            ("list", "pods", "--all-namespaces"),
            ("get", "nodes"),
            ("create", "events", "--namespace", "default"),
            ("patch", "events", "--namespace", "default"),
            ("get", f"daemonsets/{name}", *here),
        ):
            assert may(api, account, *question), question
        assert may(api, account, "patch", "nodes") is taint
        for question in (
            ("delete", "pods", *here),
            ("create", "pods", *here),
            ("create", "pods/exec", *here),
            ("update", "nodes"),
            ("delete", "nodes"),
            ("get", "secrets", *here),
            ("get", "configmaps", *here),
            ("patch", f"daemonsets/{name}", *here),
            ("get", "daemonsets/other", *here),
        ):
            assert not may(api, account, *question), question
        api.helm("uninstall", "shop", *here)


DEFINITIONS = yaml.safe_load((REPOSITORY / "hack/charts/definitions.yaml").read_text())
UNSAFE = set(DEFINITIONS["unsafeSysctls"]["properties"])
PROFILES = ("web-10k", "web-100k", "web-1m")


@cache
def catalogue() -> dict[str, str]:
    printed = programs.run(PROGRAM, "knobs", "--output=json").stdout
    return {knob["name"]: knob["class"] for knob in json.loads(printed)["knobs"]}


def with_knobs(folder: Path, **knobs: str) -> Path:
    """--set would split the names at dots."""
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


@pytest.mark.parametrize("chart", ["service", "gateway"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_charts_take_what_is_generated_for_them(
    chart: str, profile: str, tmp_path: Path
) -> None:
    generated = programs.run(PROGRAM, "generate", chart, "--unsafe", f"--profile={profile}")
    assert generated.returncode == 0, generated.stderr
    (tmp_path / "values.yaml").write_text(generated.stdout)
    wanted = yaml.safe_load(generated.stdout)
    deployment = render(chart, values=tmp_path / "values.yaml")["Deployment"]
    sysctls = deployment["spec"]["template"]["spec"]["securityContext"]["sysctls"]
    found = {entry["name"]: entry["value"] for entry in sysctls}
    assert found == wanted["sysctls"] | wanted["unsafeSysctls"]
    assert set(wanted["unsafeSysctls"]) <= UNSAFE
