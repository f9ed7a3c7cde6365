"""Dry runs of all cases, and upgrades from released charts, against a real API server.

Cases must pass schemas, defaulting, warnings and Pod Security; upgrades must not recreate or reject
anything. released/ contains earlier packages, added by `python3 hack/release version set`;
`corelane-<version>.values.yaml` holds typical user values.
"""

import itertools
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from charts import renders
from stack import REPOSITORY
from stack.apiserver import Api
from stack.rendering import BASES, CHARTS, default_values, documents, template

pytestmark = pytest.mark.nightly

# Need an operator's CRDs; test_monitoring.py and test_gitops.py cover them.
CASES = [
    case for case in renders.cases() if case.name not in ("monitoring-operator", "service-keda")
]


def dry_run(api: Api, namespace: str, objects: str) -> tuple[int, str]:
    arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
    result = api.kubectl(*arguments, "--filename", "-", text=objects)
    return result.returncode, result.stderr


def level(case: renders.Case) -> str:
    """Agents share their node's network and processes, hence privileged."""
    return "privileged" if "node-tuning" in case.name else "restricted"


def violations(api: Api, namespace: str, objects: list[dict]) -> set[str]:
    texts = "\n---\n".join(json.dumps(each) for each in objects)
    status, words = dry_run(api, namespace, texts)
    assert status == 0, words
    # Warning: would violate PodSecurity "LEVEL:VERSION": WHAT (WHY), WHAT (WHY)
    found = [line.split('": ', 1)[1] for line in words.splitlines() if "would violate" in line]
    return {what.strip() for line in found for what in re.sub(r" \([^)]*\)", "", line).split(",")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_is_admitted_where_pods_must_be_restricted(api: Api, case: renders.Case) -> None:
    found = renders.render(case)
    for each in found:
        # Some objects name a namespace that does not exist here.
        each["metadata"].pop("namespace", None)
    with api.namespace(level(case)) as namespace:
        assert dry_run(api, namespace, yaml.safe_dump_all(found)) == (0, "")


@pytest.mark.parametrize(
    ("mode", "privileges"),
    [
        ("audit", set()),
        (
            "apply",
            {
                "privileged",
                "allowPrivilegeEscalation != false",
                "unrestricted capabilities",
                "runAsNonRoot != true",
                "runAsUser=0",
                "seccompProfile",
            },
        ),
    ],
)
def test_agents_go_beyond_restricted_as_far_as_said(
    api: Api, mode: str, privileges: set[str]
) -> None:
    objects = documents("node-tuning", f"mode={mode}")
    of_the_node = {"host namespaces", "restricted volume types"}
    with api.namespace() as namespace:
        assert violations(api, namespace, objects) == of_the_node | privileges


def test_all_but_the_agents_is_restricted(api: Api) -> None:
    objects = [
        each for each in documents("node-tuning", "mode=apply") if each["kind"] != "DaemonSet"
    ]
    assert "Pod" in {each["kind"] for each in objects}
    with api.namespace() as namespace:
        assert violations(api, namespace, objects) == set()


@pytest.mark.parametrize("chart", ["service", "gateway"])
def test_unsafe_sysctls_are_for_namespaces_that_allow_them(
    api: Api, chart: str, tmp_path: Path
) -> None:
    # --set would turn the sysctl into a number.
    (tmp_path / "values.yaml").write_text('unsafeSysctls: {net.core.somaxconn: "65535"}')
    objects = documents(chart, values=tmp_path / "values.yaml")
    for wanted, found in (("baseline", {"forbidden sysctls"}), ("privileged", set())):
        with api.namespace(wanted) as namespace:
            assert violations(api, namespace, objects) == found


def test_a_pod_that_is_not_restricted_is_warned_of(api: Api) -> None:
    settings = [f"volumes[0].{part}" for part in ("name=node", "hostPath.path=/")]
    result = template("service", *settings)
    with api.namespace() as namespace:
        _, words = dry_run(api, namespace, result.stdout)
    assert 'Warning: would violate PodSecurity "restricted:latest"' in words


def test_a_field_that_there_is_not_is_refused(api: Api) -> None:
    objects = [document for document in yaml.safe_load_all(template("service").stdout) if document]
    (deployment,) = (entry for entry in objects if entry["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["tolerance"] = []
    with api.namespace() as namespace:
        status, words = dry_run(api, namespace, json.dumps(deployment))
    assert status != 0
    assert 'unknown field "spec.template.spec.tolerance"' in words


RELEASED = Path(__file__).parent / "released"
SERVICE = CHARTS / "service" / "values-reference.yaml"
UPGRADES = {
    "corelane-0.2.0": {
        "corelane": ("corelane", ["--values", REPOSITORY / "hack" / "cluster" / "values.yaml"]),
        "corelane/charts/server": (
            "service",
            ["--values", SERVICE, "--set", "nameOverride=corelane-server"],
        ),
    }
}
"""Charts upgraded on their own: the current chart for each released package, and its values."""
RELEASE = "shop"

KINDS = (
    "deployment,daemonset,service,configmap,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,"
    "poddisruptionbudget,networkpolicy,hpa"
)


def run(api: Api, *arguments: str | Path) -> None:
    """Runs Helm without waiting for pods, because no controller creates any here."""
    result = api.helm(*arguments)
    assert result.returncode == 0, result.stderr


def objects(api: Api, namespace: str) -> dict[tuple[str, str], dict]:
    selector = f"app.kubernetes.io/instance={RELEASE}"
    found = api.get(KINDS, "--namespace", namespace, "--selector", selector)["items"]
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in found}


def identities(found: dict[tuple[str, str], dict]) -> dict[tuple[str, str], str]:
    return {name: entry["metadata"]["uid"] for name, entry in found.items()}


def contents(found: dict[tuple[str, str], dict]) -> dict[tuple[str, str], dict]:
    dropped = {"metadata", "status"}
    return {
        name: {key: value for key, value in entry.items() if key not in dropped}
        for name, entry in found.items()
    }


@pytest.mark.parametrize(
    ("package", "part"),
    [(file.stem, part) for file in sorted(RELEASED.glob("*.tgz")) for part in UPGRADES[file.stem]],
)
def test_a_released_chart_is_upgraded_and_rolled_back(
    api: Api, package: str, part: str, tmp_path: Path
) -> None:
    chart, values = UPGRADES[package][part]
    with tarfile.open(RELEASED / f"{package}.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    # Values of the umbrella chart.
    users = RELEASED / f"{package}.values.yaml"
    own = ["--values", users] if part == "corelane" and users.exists() else []
    with api.namespace() as namespace:
        here = ["--namespace", namespace]
        run(api, "install", RELEASE, tmp_path / part, *here, *own)
        first = objects(api, namespace)
        assert {kind for kind, _ in first} >= {"Deployment", "Service", "ConfigMap"}
        now = ["--reset-values", "--values", renders.REGISTRY, *values]
        run(api, "upgrade", RELEASE, CHARTS / chart, *here, *now)
        second = objects(api, namespace)
        assert contents(second) != contents(first)
        assert identities(first).items() <= identities(second).items()
        run(api, "rollback", RELEASE, "1", *here)
        third = objects(api, namespace)
        assert identities(third) == identities(first)
        assert contents(third) == contents(first)
        run(api, "uninstall", RELEASE, *here)
        assert objects(api, namespace) == {}


@pytest.mark.parametrize(
    ("chart", "key"), [("service", "memory"), ("gateway", "stats"), ("node-tuning", "probes")]
)
def test_an_upgrade_keeps_values_and_takes_new_defaults(
    api: Api, chart: str, key: str, tmp_path: Path
) -> None:
    older = tmp_path / chart
    shutil.copytree(CHARTS / chart, older)
    # Simulates a release before the key existed.
    (older / "values.yaml").write_text(yaml.safe_dump(without(key, default_values(chart))))
    (older / "values.schema.json").unlink()
    shutil.rmtree(older / "templates")
    with api.namespace("privileged") as namespace:
        here = ["--namespace", namespace]
        own = ["--values", renders.REGISTRY, "--set", "image.registry=own.example"]
        base = [argument for file in BASES.get(chart, ()) for argument in ("--values", file)]
        run(api, "install", RELEASE, older, *here, *base, *own)
        refused = api.helm("upgrade", RELEASE, CHARTS / chart, *here, "--reuse-values")
        assert refused.returncode != 0
        assert f"missing property '{key}'" in refused.stderr
        run(api, "upgrade", RELEASE, CHARTS / chart, *here, "--reset-then-reuse-values")
        made = json.dumps(list(objects(api, namespace).values()))
        assert "own.example/" in made
        run(api, "uninstall", RELEASE, *here)


def without(key: str, values: dict) -> dict:
    return {name: value for name, value in values.items() if name != key}


@pytest.mark.parametrize("chart", ["service", "gateway", "node-tuning", "corelane"])
def test_every_option_can_be_changed_in_place(api: Api, chart: str) -> None:
    cases = [case for case in CASES if case.chart == chart]
    named = {each["metadata"].get("namespace") for case in cases for each in renders.render(case)}
    with api.namespace() as namespace:
        for other in named - {None}:
            api.kubectl("create", "namespace", other)
        here = ["--namespace", namespace]
        run(api, "install", RELEASE, *cases[0].arguments(), *here)
        installed = identities(objects(api, namespace))
        kept = {
            name: uid
            for name, uid in installed.items()
            if name[0] in ("Deployment", "DaemonSet", "Service")
        }
        # Both directions, so that every case follows a smaller case and a larger case.
        for case in itertools.chain(cases[1:], reversed(cases[:-1])):
            # Otherwise Helm reuses the previous case's values.
            run(api, "upgrade", RELEASE, *case.arguments(), *here, "--reset-values")
            assert kept.items() <= identities(objects(api, namespace)).items(), case.name
        # Cluster roles are not namespaced and would collide with the next release.
        run(api, "uninstall", RELEASE, *here)
        assert objects(api, namespace) == {}
