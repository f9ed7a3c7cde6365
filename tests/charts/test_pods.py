"""What the charts ask of Kubernetes."""

import json
from pathlib import Path

import pytest

from support import REPOSITORY
from support.rendering import container, default_values, pod, render

BOTH = pytest.mark.parametrize("chart", ["gateway", "server"])


def argument(objects: dict[str, dict], flag: str) -> str:
    """The value that follows a flag in the container's arguments."""
    arguments = container(objects)["args"]
    return arguments[arguments.index(flag) + 1]


@BOTH
@pytest.mark.parametrize("cpus", [1, 3])
def test_pod_is_guaranteed_with_whole_cpus(chart: str, cpus: int) -> None:
    resources = container(render(chart, f"cpus={cpus}"))["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["cpu"] == str(cpus)
    assert resources["limits"]["memory"] == default_values(chart)["memory"]


def test_one_value_drives_cpus_and_envoys_workers() -> None:
    assert argument(render("gateway", "cpus=3"), "--concurrency") == "3"


@BOTH
def test_pod_suits_the_restricted_security_standard(chart: str) -> None:
    """Pod Security Standards, profile "restricted"."""
    objects = render(chart)
    spec = pod(objects)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = container(objects)["securityContext"]
    assert security == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "emptyDir", "projected"}


@BOTH
def test_pod_has_neither_a_token_nor_service_variables(chart: str) -> None:
    objects = render(chart)
    assert pod(objects)["automountServiceAccountToken"] is False
    assert objects["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod(objects)["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"]
    assert pod(objects)["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("chart", "port", "probes"),
    [
        ("server", "admin", {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}),
        ("gateway", "stats", {"startup": "/ready", "readiness": "/ready", "liveness": "/ready"}),
    ],
)
def test_probes_stay_off_the_traffic_port(chart: str, port: str, probes: dict[str, str]) -> None:
    described = container(render(chart))
    assert port in {entry["name"] for entry in described["ports"]}
    for probe, path in probes.items():
        assert described[f"{probe}Probe"]["httpGet"] == {"path": path, "port": port}


@pytest.mark.parametrize(
    ("deadline", "grace"), [("30s", 35), ("2m", 125), ("1500ms", 7), ("1h", 3605)]
)
def test_server_has_more_grace_than_its_drain_takes(deadline: str, grace: int) -> None:
    objects = render("server", f"config.drain.deadline={deadline}", "config.drain.settle=1s")
    assert pod(objects)["terminationGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("settings", "deadline", "grace"),
    [
        ((), "45000ms", 50),
        (("shutdown.settle=20s", "upstream.timeout=1m", "shutdown.margin=4s"), "80000ms", 84),
        (("shutdown.deadline=20s", "shutdown.margin=1500ms"), "20000ms", 22),
        # The name of shutdown.settle in 0.1.0.
        (("shutdown.preStop=20s",), "50000ms", 55),
    ],
)
def test_gateway_has_more_grace_than_its_drain_takes(
    settings: tuple[str, ...], deadline: str, grace: int
) -> None:
    objects = render("gateway", "admin.port=9999", *settings)
    command = container(objects)["lifecycle"]["preStop"]["exec"]["command"]
    assert command[:3] == ["/gateway-agent", "drain", "--admin=127.0.0.1:9999"]
    assert f"--deadline={deadline}" in command
    assert pod(objects)["terminationGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("chart", "setting"), [("server", "config.backlog=64"), ("gateway", "listener.http2Streams=7")]
)
def test_a_changed_configuration_rolls_the_pods(chart: str, setting: str) -> None:
    def checksum(*settings: str) -> str:
        metadata = render(chart, *settings)["Deployment"]["spec"]["template"]["metadata"]
        return metadata["annotations"]["checksum/config"]

    assert checksum() == checksum("replicas=5")
    assert checksum() != checksum(setting)


@BOTH
def test_selectors_find_the_pods(chart: str) -> None:
    objects = render(chart)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["Service"]["spec"]["selector"].items() <= labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    spread = pod(objects)["topologySpreadConstraints"]
    assert [entry["topologyKey"].split("/")[1] for entry in spread] == ["hostname", "zone"]
    for entry in spread:
        assert entry["labelSelector"]["matchLabels"].items() <= labels


@BOTH
def test_selectors_are_those_of_earlier_versions(chart: str) -> None:
    """Kubernetes refuses to change them, and Helm would make objects of other names anew."""
    objects = render(chart, "labels.team=a", "podLabels.tier=b", release="shop")
    selector = {"app.kubernetes.io/name": f"corelane-{chart}", "app.kubernetes.io/instance": "shop"}
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"] == selector
    assert {each["metadata"]["name"] for each in objects.values()} == {f"shop-{chart}"}


@BOTH
def test_a_new_version_alone_does_not_roll_the_pods(chart: str) -> None:
    labels = render(chart)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert set(labels) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}


@BOTH
def test_labels_cannot_replace_those_of_the_selector(chart: str) -> None:
    mine = r"app\.kubernetes\.io/name=mine"
    objects = render(chart, f"labels.{mine}", f"podLabels.{mine}", "podLabels.tier=b")
    template = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert template["app.kubernetes.io/name"] == f"corelane-{chart}"
    assert template["tier"] == "b"
    for each in objects.values():
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == f"corelane-{chart}"


@BOTH
def test_pod_may_share_its_cpus(chart: str) -> None:
    objects = render(chart, "exclusive=false", "cpus=2")
    resources = container(objects)["resources"]
    assert "cpu" not in resources["limits"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    if chart == "gateway":
        assert argument(objects, "--concurrency") == "2"
    else:
        assert "lanes = 2\n" in objects["ConfigMap"]["data"]["server.toml"]


@BOTH
@pytest.mark.parametrize("exclusive", ["true", "false"])
def test_resources_that_are_given_are_taken(chart: str, exclusive: str) -> None:
    given = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}
    settings = [
        f"resources.{part}.{key}={value}"
        for part in ("requests", "limits")
        for key, value in given.items()
    ]
    resources = container(render(chart, f"exclusive={exclusive}", *settings))["resources"]
    texts = {
        part: {key: str(value) for key, value in resources[part].items()} for part in resources
    }
    assert texts == {"requests": given, "limits": given}


@BOTH
def test_registry_and_secrets_may_come_from_a_parent_chart(chart: str) -> None:
    everywhere = ["global.imageRegistry=all.example", "global.imagePullSecrets[0].name=all"]
    objects = render(chart, *everywhere, "imagePullSecrets[0].name=own")
    assert container(objects)["image"].startswith(f"all.example/corelane-{chart}:")
    assert pod(objects)["imagePullSecrets"] == [{"name": "own"}, {"name": "all"}]
    own = container(render(chart, *everywhere, "image.registry=own.example:5000"))
    assert own["image"].startswith(f"own.example:5000/corelane-{chart}:")


@BOTH
def test_pod_takes_what_is_added(chart: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    added = {
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "podAnnotations": {"note": "x"},
        "nodeSelector": {"pool": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
    }
    values.write_text(json.dumps(added))
    objects = render(chart, values=values)
    assert added["extraEnv"][0] in container(objects)["env"]
    assert added["extraVolumes"][0] in pod(objects)["volumes"]
    assert added["extraVolumeMounts"][0] in container(objects)["volumeMounts"]
    metadata = objects["Deployment"]["spec"]["template"]["metadata"]
    assert metadata["annotations"]["note"] == "x"
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod(objects)[key] == added[key]


@BOTH
def test_pod_annotations_win_but_for_the_checksum(chart: str) -> None:
    mine = [r"podAnnotations.prometheus\.io/path=/x", "podAnnotations.checksum/config=x"]
    plain, changed = (
        render(chart, *settings)["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        for settings in ([], mine)
    )
    assert changed == {**plain, "prometheus.io/path": "/x"}
    off = render(chart, "prometheusAnnotations=false")["Deployment"]["spec"]["template"]["metadata"]
    assert set(off["annotations"]) == {"checksum/config"}


@BOTH
def test_service_account_may_be_one_that_exists(chart: str) -> None:
    objects = render(chart, "serviceAccount.create=false", "serviceAccount.name=mine")
    assert "ServiceAccount" not in objects
    assert pod(objects)["serviceAccountName"] == "mine"
    # The agent's rights are for no account that all pods share.
    alone = {"server": [], "gateway": ["upstream.discovery=dns"]}[chart]
    objects = render(chart, "serviceAccount.create=false", *alone)
    assert pod(objects)["serviceAccountName"] == "default"


@BOTH
def test_probes_can_be_timed(chart: str) -> None:
    probe = container(render(chart, "probes.liveness.periodSeconds=30"))["livenessProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (30, 3)


def test_gateway_may_be_a_load_balancer() -> None:
    settings = ["service.type=LoadBalancer", "service.externalTrafficPolicy=Local"]
    settings += ["service.loadBalancerSourceRanges[0]=10.0.0.0/8", "service.nodePort=30080"]
    spec = render("gateway", *settings)["Service"]["spec"]
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
    assert spec["loadBalancerSourceRanges"] == ["10.0.0.0/8"]
    assert spec["ports"][0]["nodePort"] == 30080
    assert "externalTrafficPolicy" not in render("gateway")["Service"]["spec"]


@BOTH
def test_image_is_taken_by_digest_if_there_is_one(chart: str) -> None:
    digest = "sha256:" + "a" * 64
    version = (REPOSITORY / "VERSION").read_text().strip()
    assert container(render(chart))["image"] == f"corelane-{chart}:{version}"
    assert container(render(chart, "image.tag=x"))["image"] == f"corelane-{chart}:x"
    pinned = render(chart, "image.tag=x", f"image.digest={digest}")
    assert container(pinned)["image"] == f"corelane-{chart}@{digest}"


def test_server_names_itself_after_its_pod() -> None:
    (variable,) = container(render("server"))["env"]
    assert variable == {
        "name": "CORELANE_REPLICA",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
    }


def test_static_files_are_mounted_read_only_where_they_are_served() -> None:
    objects = render("server", "static.root=/srv", "static.volume.configMap.name=pages")
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    assert volumes["static"]["configMap"] == {"name": "pages"}
    mounts = {mount["name"]: mount for mount in container(objects)["volumeMounts"]}
    assert mounts["static"] == {"name": "static", "mountPath": "/srv", "readOnly": True}


def test_the_secret_of_tls_is_mounted_as_a_folder() -> None:
    objects = render("server", "tls.secret=shop")
    volumes = {volume["name"]: volume for volume in pod(objects)["volumes"]}
    assert volumes["tls"]["secret"] == {"secretName": "shop"}
    mounts = {mount["name"]: mount for mount in container(objects)["volumeMounts"]}
    assert mounts["tls"] == {"name": "tls", "mountPath": "/etc/corelane-tls", "readOnly": True}
    assert "tls" not in {volume["name"] for volume in pod(render("server"))["volumes"]}
