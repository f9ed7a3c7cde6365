"""The golden renders, judged by a real API server: schemas, defaults, warnings and Pod Security."""

import json

import pytest
import yaml

from charts import golden
from support.apiserver import Api
from support.rendering import template

# Objects of mode gatewayAPI take definitions that this server does not have: tests/gateway_api.
CASES = [case for case in golden.cases() if not case.name.endswith("gateway-api")]


def dry_run(api: Api, namespace: str, objects: str) -> tuple[int, str]:
    """Asks the API server for what it would do: kubectl's exit status and what it says."""
    arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
    result = api.kubectl(*arguments, "--filename", "-", text=objects)
    return result.returncode, result.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_is_admitted_where_pods_must_be_restricted(api: Api, case: golden.Case) -> None:
    with api.namespace() as namespace:
        assert dry_run(api, namespace, case.file.read_text()) == (0, "")


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
