"""Properties that service and gateway pods share: identity, placement and count."""

from pathlib import Path

import pytest

from stack.rendering import container, pod, render

pytestmark = [pytest.mark.fast, pytest.mark.parametrize("chart", ["gateway", "service"])]

SCALED = ["autoscaling.enabled=true", "pinning=exclusive", "replicas=9"]


def test_a_number_of_pods_or_an_autoscaler(chart: str) -> None:
    fixed = render(chart)
    assert "HorizontalPodAutoscaler" not in fixed
    assert fixed["Deployment"]["spec"]["replicas"] == 2
    scaled = render(chart, *SCALED, "autoscaling.maxReplicas=6")
    assert "replicas" not in scaled["Deployment"]["spec"]
    name = scaled["Deployment"]["metadata"]["name"]
    target = {"type": "Utilization", "averageUtilization": 70}
    assert scaled["HorizontalPodAutoscaler"]["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": 2,
        "maxReplicas": 6,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }


def test_a_handover_makes_the_autoscaler_change_the_number(chart: str) -> None:
    handover = (*SCALED, "autoscaling.handover=true", "autoscaling.maxReplicas=12")
    scaled = render(chart, *handover)
    assert scaled["Deployment"]["spec"]["replicas"] == 9
    assert scaled["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == 10
    more = render(chart, *handover, "autoscaling.minReplicas=11")
    assert more["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == 11


def test_an_autoscaler_takes_other_metrics_and_a_behavior(chart: str) -> None:
    given = ["cpuPercent=0", "metrics[0].type=Pods", "behavior.scaleDown.selectPolicy=Min"]
    scaled = render(chart, *SCALED, *(f"autoscaling.{setting}" for setting in given))
    spec = scaled["HorizontalPodAutoscaler"]["spec"]
    assert spec["metrics"] == [{"type": "Pods"}]
    assert spec["behavior"] == {"scaleDown": {"selectPolicy": "Min"}}


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ([], 1),
        (["replicas=8", "disruptionBudget.maxUnavailable=25%"], "25%"),
        (["disruptionBudget.enabled=false"], None),
        # With one pod, the budget would only block node drains.
        (["replicas=1"], None),
        ([*SCALED, "autoscaling.minReplicas=1", "autoscaling.maxReplicas=1"], None),
        (["replicas=1", *SCALED[:2], "autoscaling.minReplicas=1", "autoscaling.maxReplicas=2"], 1),
    ],
)
def test_a_disruption_budget_where_there_can_be_two_pods(
    chart: str, settings: list[str], most: int | str | None
) -> None:
    found = render(chart, *settings).get("PodDisruptionBudget", {}).get("spec", {})
    assert found.get("maxUnavailable") == most
    assert "minAvailable" not in found
    # The budget also permits evicting pods that are not ready.
    assert found.get("unhealthyPodEvictionPolicy") == ("AlwaysAllow" if most else None)


def test_an_account_without_a_token(chart: str) -> None:
    own = render(chart)
    assert own["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod(own)["serviceAccountName"] == own["ServiceAccount"]["metadata"]["name"]
    assert pod(own)["automountServiceAccountToken"] is False
    # The server rejects unknown CORELANE_ variables, which Services of that name would set.
    assert pod(own)["enableServiceLinks"] is False
    shared = render(chart, "serviceAccount.create=false", "serviceAccount.name=shared")
    assert "ServiceAccount" not in shared
    assert pod(shared)["serviceAccountName"] == "shared"


def test_pods_are_restricted(chart: str) -> None:
    objects = render(chart)
    wanted = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
    wanted["seccompProfile"] = {"type": "RuntimeDefault"}
    assert wanted.items() <= pod(objects)["securityContext"].items()
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_sysctls_and_unsafe_ones_on_demand(chart: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    # --set would turn the sysctl into a number.
    values.write_text('unsafeSysctls: {net.core.somaxconn: "65535"}')
    listed = pod(render(chart, values=values))["securityContext"]["sysctls"]
    assert {"name": "net.core.somaxconn", "value": "65535"} in listed
    assert {"name": "net.ipv4.tcp_fin_timeout", "value": "30"} in listed


def test_an_image_of_one_registry_its_own_or_a_digest(chart: str) -> None:
    secrets = ["global.imagePullSecrets[0].name=all", "imagePullSecrets[0].name=own"]
    objects = render(chart, "global.registry=all.example", "image.pullPolicy=Always", *secrets)
    assert container(objects)["image"].startswith("all.example/corelane-")
    assert container(objects)["imagePullPolicy"] == "Always"
    assert pod(objects)["imagePullSecrets"] == [{"name": "own"}, {"name": "all"}]
    digest = f"sha256:{'1' * 64}"
    own = render(chart, "image.registry=own.example", f"image.digest={digest}")
    assert container(own)["image"].startswith("own.example/corelane-")
    assert container(own)["image"].endswith(f"@{digest}")


def test_pods_go_where_they_are_told_to(chart: str) -> None:
    given = ["nodeSelector.pool=edge", "tolerations[0].key=edge", "priorityClassName=high"]
    found = pod(render(chart, *given, "topologySpread=null"))
    assert found["nodeSelector"] == {"pool": "edge"}
    assert found["tolerations"] == [{"key": "edge"}]
    assert found["priorityClassName"] == "high"
    assert "topologySpreadConstraints" not in found


def test_labels_of_users_are_added_and_change_no_selector(chart: str) -> None:
    selector = render(chart)["Deployment"]["spec"]["selector"]
    given = ["labels.team=shop", "podLabels.tier=edge"]
    given += [
        r"labels.app\.kubernetes\.io/name=mine",
        r"podLabels.app\.kubernetes\.io/part-of=mine",
    ]
    deployment = render(chart, *given)["Deployment"]
    assert deployment["spec"]["selector"] == selector
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= selector["matchLabels"].items()
    assert (labels["team"], labels["tier"]) == ("shop", "edge")
    assert labels["app.kubernetes.io/part-of"] == "corelane"
