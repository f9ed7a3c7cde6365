"""GitOps tools render the charts repeatedly, without a cluster, and apply them as a server-side
field manager. Nothing may differ the second time, and the autoscaler's replica count must stay.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from charts import renders
from stack.apiserver import Api
from stack.rendering import CHARTS, helm, is_hook
from support.definitions import KEDA, PROMETHEUS, install

CASES = renders.cases()
CHANGING = (
    r"lookup|now|rand\w+|uuidv4|shuffle|gen(?:CA|PrivateKey|SelfSigned|Signed)\w*|htpasswd|bcrypt|encryptAES"
    r"|getHostByName|\.Release\.(?:IsInstall|IsUpgrade|Revision)|\.Capabilities\.APIVersions"
)
"""Functions whose results differ each time, and values that differ without a cluster."""

ACTION = re.compile(r"\{\{-?(?!-? */\*)(.*?)-?\}\}", re.DOTALL)


@pytest.mark.fast
def test_no_template_renders_anything_that_changes() -> None:
    files = [
        file for suffix in ("tpl", "yaml") for file in CHARTS.glob(f"*/templates/**/*.{suffix}")
    ]
    # A load test runs once for each revision.
    files.remove(CHARTS / "loadtest" / "templates" / "_names.tpl")
    assert len(files) > 50
    for file in files:
        for action in ACTION.findall(file.read_text()):
            words = re.sub(r'"[^"]*"|`[^`]*`', "", action)
            assert not re.search(rf"(?<![\w.$])(?:{CHANGING})\b", words), f"{file}: {action}"


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_second_render_is_identical(case: renders.Case) -> None:
    arguments = ["template", "corelane", *case.arguments(), "--namespace", "prod"]
    first, second = helm(*arguments), helm(*arguments, "--is-upgrade")
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout


@pytest.fixture(scope="module")
def definitions(api: Api, tmp_path_factory: pytest.TempPathFactory) -> None:
    for operator in (KEDA, PROMETHEUS):
        install(api, operator, tmp_path_factory.mktemp("operator"))


MANAGER = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")


def replicas(api: Api, *where: str) -> dict[str, int]:
    found = api.get("deployments", *where)["items"]
    return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}


def scale(api: Api, name: str, count: int, *where: str) -> None:
    """Writes the scale subresource, as an autoscaler does."""
    scaled = api.kubectl("scale", "deployment", name, f"--replicas={count}", *where)
    assert scaled.returncode == 0, scaled.stderr


def altered(rendered: object, live: object, path: str = "") -> Iterator[str]:
    """Fields that the API server stores in another form."""
    if isinstance(rendered, dict) and isinstance(live, dict):
        for key, value in rendered.items():
            yield from altered(value, live.get(key), f"{path}.{key}")
    elif isinstance(rendered, list) and isinstance(live, list) and len(rendered) == len(live):
        for at, (one, other) in enumerate(zip(rendered, live, strict=True)):
            yield from altered(one, other, f"{path}[{at}]")
    elif rendered != live:
        yield f"{path}: {rendered!r} is stored as {live!r}"


@pytest.mark.nightly
@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_second_apply_changes_nothing(api: Api, case: renders.Case) -> None:
    objects = [each for each in renders.render(case) if not is_hook(each)]
    for each in objects:
        # Some objects name a namespace that does not exist here.
        each["metadata"].pop("namespace", None)
    text = yaml.safe_dump_all(objects)
    with api.namespace("privileged") as namespace:
        where = ("--namespace", namespace)

        def apply() -> None:
            applied = api.kubectl("apply", *MANAGER, *where, "--filename=-", text=text)
            assert applied.returncode == 0, applied.stderr

        def is_synced() -> None:
            diff = api.kubectl("diff", *MANAGER, *where, "--filename=-", text=text)
            assert diff.returncode == 0, diff.stdout + diff.stderr

        apply()
        is_synced()
        # Argo CD's client-side comparison knows the other form only for Kubernetes' own kinds.
        for each in objects:
            if ".io/" not in each["apiVersion"].replace(".k8s.io/", "/"):
                continue
            live = api.get(each["kind"], each["metadata"]["name"], *where)
            assert list(altered(each, live, each["kind"])) == []
        scaled = {each["spec"]["scaleTargetRef"]["name"] for each in objects if is_autoscaler(each)}
        for count in (3, 7, 2) if scaled else ():
            for name in scaled:
                scale(api, name, count, *where)
            is_synced()
            apply()
            assert {replicas(api, *where)[name] for name in scaled} == {count}


def is_autoscaler(described: dict) -> bool:
    return described["kind"] in ("HorizontalPodAutoscaler", "ScaledObject")


@pytest.mark.nightly
def test_values_alone_hand_the_number_of_replicas_over_and_back(api: Api, tmp_path: Path) -> None:
    """Helm's server-side apply resets a field to its default if Helm alone owns it."""
    with api.namespace() as namespace:
        where = ("--namespace", namespace)

        def upgrade(**autoscaling: object) -> int:
            metrics = [{"type": "Pods", "pods": METRIC}]
            values = {"autoscaling": {"cpuPercent": 0, "metrics": metrics, **autoscaling}}
            (tmp_path / "values.yaml").write_text(json.dumps({"replicas": 4, **values}))
            chart = renders.case("service-reference").arguments()
            own = ("--values", tmp_path / "values.yaml")
            done = api.helm("upgrade", "--install", "shop", *chart, *own, *where)
            assert done.returncode == 0, done.stderr
            return replicas(api, *where)["shop"]

        def least() -> int:
            return api.get("hpa", "shop", *where)["spec"]["minReplicas"]

        assert upgrade() == 4
        assert upgrade(enabled=True, handover=True) == 4
        scale(api, "shop", least(), *where)
        assert upgrade(enabled=True) == 5
        scale(api, "shop", 7, *where)
        assert upgrade(enabled=True, maxReplicas=20) == 7
        # And back.
        assert upgrade(enabled=True, minReplicas=4, maxReplicas=4) == 7
        scale(api, "shop", 4, *where)
        assert upgrade() == 4
        assert api.get("hpa", *where)["items"] == []
        api.helm("uninstall", "shop", *where)


METRIC = {
    "metric": {"name": "corelane_lane_busy_ratio"},
    "target": {"type": "AverageValue", "averageValue": "700m"},
}
