"""How many pods there are: the autoscaler, and what keeps evictions from taking them all."""

import pytest

from support.rendering import CHARTS, render

BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])
ON = "autoscaling.enabled=true"


@BOTH
def test_autoscaler_decides_alone(chart: str) -> None:
    objects = render(chart, ON, "replicas=5", "autoscaling.maxReplicas=4")
    assert "replicas" not in objects["Deployment"]["spec"]
    spec = objects["HorizontalPodAutoscaler"]["spec"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": objects["Deployment"]["metadata"]["name"],
    }
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 4)
    target = {"type": "Utilization", "averageUtilization": 70}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    assert spec["metrics"] == [cpu]


@BOTH
def test_without_it_there_is_a_number(chart: str) -> None:
    objects = render(chart, "replicas=5")
    assert objects["Deployment"]["spec"]["replicas"] == 5
    assert "HorizontalPodAutoscaler" not in objects


def test_server_can_scale_by_its_busy_lanes() -> None:
    objects = render("server", values=CHARTS / "server" / "values-autoscaling.yaml")
    (metric,) = objects["HorizontalPodAutoscaler"]["spec"]["metrics"]
    assert metric["pods"] == {
        "metric": {"name": "corelane_lane_busy_ratio"},
        "target": {"type": "AverageValue", "averageValue": "700m"},
    }


@BOTH
@pytest.mark.parametrize(
    "settings",
    [["replicas=2"], [ON, "replicas=1"], [ON, "autoscaling.minReplicas=1"]],
)
def test_evictions_take_one_pod_at_a_time(chart: str, settings: list[str]) -> None:
    spec = render(chart, *settings)["PodDisruptionBudget"]["spec"]
    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


ONE = "autoscaling.minReplicas=1,autoscaling.maxReplicas=1"


@BOTH
@pytest.mark.parametrize(
    "settings",
    [["replicas=1"], ["replicas=0"], [ON, "replicas=9", ONE], ["disruptionBudget.enabled=false"]],
)
def test_there_is_no_budget_for_one_pod(chart: str, settings: list[str]) -> None:
    assert "PodDisruptionBudget" not in render(chart, *settings)
