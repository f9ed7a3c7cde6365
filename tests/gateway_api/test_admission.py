"""The objects, judged by a real API server with the definitions that Envoy Gateway comes with."""

import pytest
import yaml

from charts import renders
from stack.apiserver import Api
from stack.rendering import template
from tools import gomodule, table

CASES = [case for case in renders.cases() if case.name.endswith("gateway-api")]


@pytest.fixture(scope="module")
def definitions(api: Api) -> None:
    """The definitions of the pinned module."""
    files = gomodule.source(table.find("envoy-gateway")) / "charts/gateway-helm/charts/crds/crds"
    everything = ["--recursive", "--filename", files]
    # Their text is too long for the annotation of the other kind of apply.
    applied = api.kubectl("apply", "--server-side", *everything)
    assert applied.returncode == 0, applied.stderr
    waited = api.kubectl("wait", "--for=condition=Established", *everything, "--timeout=60s")
    assert waited.returncode == 0, waited.stderr


def admitted(api: Api, objects: str) -> tuple[int, str]:
    """Asks the API server for what it would do: kubectl's exit status and what it says."""
    with api.namespace() as namespace:
        # Some are for the namespace of Envoy Gateway, which this server does not have.
        documents = [each for each in yaml.safe_load_all(objects) if each]
        for each in documents:
            each["metadata"].pop("namespace", None)
        arguments = ["apply", "--dry-run=server", "--validate=strict", "--namespace", namespace]
        text = yaml.safe_dump_all(documents)
        result = api.kubectl(*arguments, "--filename", "-", text=text)
        return result.returncode, result.stderr


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_is_admitted(api: Api, case: renders.Case) -> None:
    assert admitted(api, yaml.safe_dump_all(renders.render(case))) == (0, "")


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize(
    "settings",
    [
        ["key=header", "name=x-user"],
        ["key=cookie", "name=who", "cookieLife=1h"],
        ["key=query", "name=who"],
        ["key=source-address"],
    ],
    ids=lambda settings: settings[0],
)
def test_every_key_of_ring_hash_is_admitted(api: Api, settings: list[str]) -> None:
    """Envoy Gateway without a cluster cannot read these; with one it can."""
    own = [f"upstream.balancing.ringHash.{each}" for each in settings]
    result = template("gateway", "mode=gatewayAPI", "upstream.balancing.policy=ring-hash", *own)
    assert admitted(api, result.stdout) == (0, "")


@pytest.mark.usefixtures("definitions")
def test_what_breaks_a_rule_of_the_definitions_is_refused(api: Api) -> None:
    result = template("gateway", "mode=gatewayAPI")
    assert "type: LeastRequest" in result.stdout
    status, words = admitted(
        api, result.stdout.replace("type: LeastRequest", "type: ConsistentHash")
    )
    assert status != 0
    assert "consistentHash field needs to be set" in words
