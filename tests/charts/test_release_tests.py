"""The pods of `helm test`."""

import pytest

from support.rendering import check_pods, container, pod, render

ALL = pytest.mark.parametrize("chart", ["gateway", "server", "corelane"])
BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])


@ALL
def test_they_suit_the_restricted_security_standard(chart: str) -> None:
    pods = check_pods(chart)
    assert pods
    for each in pods.values():
        spec = each["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        (only,) = spec["containers"]
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@ALL
def test_they_end_and_are_cleared_away(chart: str) -> None:
    for each in check_pods(chart).values():
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        assert "before-hook-creation" in annotations["helm.sh/hook-delete-policy"].split(",")
        assert each["spec"]["restartPolicy"] == "Never"
        assert each["spec"]["activeDeadlineSeconds"] > 60


@BOTH
def test_they_run_the_chart_s_own_image_as_its_pods_do(chart: str) -> None:
    settings = ["image.tag=x", "imagePullSecrets[0].name=s", "nodeSelector.pool=fast"]
    deployed = render(chart, *settings)
    for each in check_pods(chart, *settings).values():
        (only,) = each["spec"]["containers"]
        assert only["image"] == container(deployed)["image"]
        for key in ("imagePullSecrets", "serviceAccountName", "nodeSelector"):
            assert each["spec"][key] == pod(deployed)[key]


@ALL
def test_they_need_no_cpu_that_the_replicas_have(chart: str) -> None:
    for each in check_pods(chart).values():
        (only,) = each["spec"]["containers"]
        for amounts in only["resources"].values():
            assert "cpu" not in amounts


@pytest.mark.parametrize(
    ("chart", "settings", "urls"),
    [
        ("gateway", ["service.port=81"], {"http://corelane-gateway.prod.svc:81/"}),
        (
            "server",
            ["ports.traffic=1080", "ports.admin=1081"],
            {
                "http://corelane-server.prod.svc:1080/",
                "http://corelane-server.prod.svc:1081/readyz",
            },
        ),
        # What asks speaks no TLS.
        ("server", ["tls.secret=shop"], {"http://corelane-server.prod.svc:8081/readyz"}),
    ],
)
def test_they_ask_the_ports_of_the_services(
    chart: str, settings: list[str], urls: set[str]
) -> None:
    pods = check_pods(chart, *settings)
    assert {each["spec"]["containers"][0]["args"][0] for each in pods.values()} == urls
