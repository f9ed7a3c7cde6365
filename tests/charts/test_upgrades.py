"""Upgrades of an installed chart, against a real API server: nothing is recreated or refused.

released/ has the packages of earlier releases; `python3 hack/release version set` adds them. Beside
one, `<chart>-<version>.values.yaml` may have values that its users set, which later ones must take.
"""

import itertools
from pathlib import Path

import pytest

from charts import golden
from support.apiserver import Api
from support.rendering import CHARTS

pytestmark = pytest.mark.nightly

RELEASED = Path(__file__).parent / "released"
PACKAGES = sorted(RELEASED.glob("*.tgz"))
VALUES = sorted(RELEASED.glob("*.values.yaml"))
RELEASE = "shop"

KINDS = (
    "deployment,daemonset,service,configmap,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,"
    "poddisruptionbudget,networkpolicy,hpa"
)


def run(api: Api, *arguments: str | Path) -> None:
    """Runs Helm, which must succeed. Nothing here makes pods, so there is nothing to wait for."""
    result = api.helm(*arguments)
    assert result.returncode == 0, result.stderr


def objects(api: Api, namespace: str) -> dict[tuple[str, str], dict]:
    """The objects of the release by kind and name."""
    selector = f"app.kubernetes.io/instance={RELEASE}"
    found = api.get(KINDS, "--namespace", namespace, "--selector", selector)["items"]
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in found}


def identities(found: dict[tuple[str, str], dict]) -> dict[tuple[str, str], str]:
    """What distinguishes an object from another one of the same name."""
    return {name: entry["metadata"]["uid"] for name, entry in found.items()}


def contents(found: dict[tuple[str, str], dict]) -> dict[tuple[str, str], dict]:
    """What the objects hold beside their metadata and status."""
    dropped = {"metadata", "status"}
    return {
        name: {key: value for key, value in entry.items() if key not in dropped}
        for name, entry in found.items()
    }


def there_and_back(api: Api, package: Path, *values: str | Path) -> None:
    """Installs a released chart, upgrades it to the present one, goes back, and uninstalls it."""
    chart = CHARTS / package.stem.rpartition("-")[0]
    with api.namespace() as namespace:
        here = ["--namespace", namespace]
        run(api, "install", RELEASE, package, *here, *values)
        first = objects(api, namespace)
        assert {kind for kind, _ in first} >= {"Deployment", "Service", "ConfigMap"}
        run(api, "upgrade", RELEASE, chart, *here, *values)
        second = objects(api, namespace)
        assert contents(second) != contents(first)
        assert identities(first).items() <= identities(second).items()
        run(api, "rollback", RELEASE, "1", *here)
        third = objects(api, namespace)
        assert identities(third) == identities(first)
        assert contents(third) == contents(first)
        run(api, "uninstall", RELEASE, *here)
        assert objects(api, namespace) == {}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.stem)
def test_a_released_chart_is_upgraded_and_rolled_back(api: Api, package: Path) -> None:
    there_and_back(api, package)


@pytest.mark.parametrize("values", VALUES, ids=lambda values: values.name)
def test_so_is_one_with_the_values_of_its_users(api: Api, values: Path) -> None:
    package = values.with_name(values.name.replace(".values.yaml", ".tgz"))
    there_and_back(api, package, "--values", values)


@pytest.mark.parametrize("chart", ["server", "gateway", "node-tuning", "corelane"])
def test_every_option_can_be_changed_in_place(api: Api, chart: str) -> None:
    # Objects of mode gatewayAPI take definitions that this server does not have: tests/gateway_api.
    cases = [case for case in golden.cases() if case.chart == chart and "api" not in case.name]
    with api.namespace() as namespace:
        here = ["--namespace", namespace]
        run(api, "install", RELEASE, *cases[0].arguments(), *here)
        installed = identities(objects(api, namespace))
        kept = {
            name: uid
            for name, uid in installed.items()
            if name[0] in ("Deployment", "DaemonSet", "Service")
        }
        # There and back, so that each case follows a smaller and a larger one.
        for case in itertools.chain(cases[1:], reversed(cases[:-1])):
            # Without the flag, a case without values would have those of the one before.
            run(api, "upgrade", RELEASE, *case.arguments(), *here, "--reset-values")
            assert kept.items() <= identities(objects(api, namespace)).items(), case.name
        # Cluster roles belong to no namespace: the next release of this name may have the same.
        run(api, "uninstall", RELEASE, *here)
        assert objects(api, namespace) == {}
