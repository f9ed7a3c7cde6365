"""Every case of cases.yaml, judged by a real API server: schemas, defaults, warnings and Pod Security."""

import json
import re
from pathlib import Path

import pytest
import yaml

from charts import golden
from support.apiserver import Api
from support.rendering import documents, template

pytestmark = pytest.mark.nightly

# Objects of these take definitions that this server does not have: tests/gateway_api, test_monitoring.py.
DEFINED = ("gateway-api", "monitoring-operator")
CASES = [case for case in golden.cases() if not case.name.endswith(DEFINED)]


def dry_run(api: Api, namespace: str, objects: str) -> tuple[int, str]:
    """Asks the API server for what it would do: kubectl's exit status and what it says."""
    arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
    result = api.kubectl(*arguments, "--filename", "-", text=objects)
    return result.returncode, result.stderr


def level(case: golden.Case) -> str:
    """Pod Security of the namespace that a case is for: agents share networks and processes of their nodes."""
    return "privileged" if "node-tuning" in case.name else "restricted"


def violations(api: Api, namespace: str, objects: list[dict]) -> set[str]:
    """What a namespace's Pod Security finds in the templates of pods."""
    texts = "\n---\n".join(json.dumps(each) for each in objects)
    status, words = dry_run(api, namespace, texts)
    assert status == 0, words
    # Warning: would violate PodSecurity "LEVEL:VERSION": WHAT (WHY), WHAT (WHY)
    found = [line.split('": ', 1)[1] for line in words.splitlines() if "would violate" in line]
    return {what.strip() for line in found for what in re.sub(r" \([^)]*\)", "", line).split(",")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_is_admitted_where_pods_must_be_restricted(api: Api, case: golden.Case) -> None:
    found = golden.render(case)
    for each in found:
        # Some are for a namespace that they name, which this server does not have.
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
    assert {"Job", "Pod"} <= {each["kind"] for each in objects}
    with api.namespace() as namespace:
        assert violations(api, namespace, objects) == set()


@pytest.mark.parametrize("chart", ["server", "gateway"])
def test_unsafe_sysctls_are_for_namespaces_that_allow_them(
    api: Api, chart: str, tmp_path: Path
) -> None:
    # A sysctl is text, which --set would make a number of.
    (tmp_path / "values.yaml").write_text('unsafeSysctls: {net.core.somaxconn: "65535"}')
    objects = documents(chart, values=tmp_path / "values.yaml")
    for wanted, found in (("baseline", {"forbidden sysctls"}), ("privileged", set())):
        with api.namespace(wanted) as namespace:
            assert violations(api, namespace, objects) == found


def test_a_pod_that_is_not_restricted_is_warned_of(api: Api) -> None:
    settings = [f"extraVolumes[0].{part}" for part in ("name=node", "hostPath.path=/")]
    result = template("server", *settings)
    with api.namespace() as namespace:
        _, words = dry_run(api, namespace, result.stdout)
    assert 'Warning: would violate PodSecurity "restricted:latest"' in words


def test_a_field_that_there_is_not_is_refused(api: Api) -> None:
    objects = [document for document in yaml.safe_load_all(template("server").stdout) if document]
    (deployment,) = (entry for entry in objects if entry["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["tolerance"] = []
    with api.namespace() as namespace:
        status, words = dry_run(api, namespace, json.dumps(deployment))
    assert status != 0
    assert 'unknown field "spec.template.spec.tolerance"' in words
