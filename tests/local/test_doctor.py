"""`corelane doctor` against an API server without nodes or controllers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import REPOSITORY, apiserver, programs
from stack.apiserver import Api

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with apiserver.running(tmp_path_factory.mktemp("apiserver")) as api:
        yield api


def doctor(kubeconfig: Path, *flags: str) -> tuple[int, str]:
    result = programs.run("corelane", "doctor", f"--kubeconfig={kubeconfig}", *flags)
    assert result.stderr == ""
    return result.returncode, result.stdout


def node(kernel: str) -> dict:
    return {"metadata": {"name": "a"}, "status": {"nodeInfo": {"kernelVersion": kernel}}}


def test_an_installation_is_judged_from_nothing_to_healthy(cluster: Api) -> None:
    status, text = doctor(cluster.kubeconfig)
    assert status == 1
    assert "FAILED   Kernel: the cluster has no nodes\n" in text
    assert "FAILED   Pods: Corelane is not installed\n         Fix: helm install" in text

    cluster.create("/api/v1/nodes", node("6.1.0"))
    assert doctor(cluster.kubeconfig, "--pre")[0] == 0

    chart = REPOSITORY / "charts" / "corelane"
    where = ("--namespace", "shop", "--create-namespace")
    installed = cluster.helm(
        "install", "web", chart, *where, "--set=global.registry=images.example"
    )
    assert installed.returncode == 0, installed.stderr
    status, text = doctor(cluster.kubeconfig)
    assert (status, "shop/web-gateway: 0 of 2 ready; shop/web-server: 0 of 2" in text) == (1, True)
    assert "Fix: kubectl --namespace shop describe pods --selector app.kubernetes.io/name=" in text

    path = "/apis/apps/v1/namespaces/shop/deployments"
    for name in ("web-gateway", "web-server"):
        cluster.change(f"{path}/{name}/status", {"status": {"replicas": 2, "readyReplicas": 2}})
    status, text = doctor(cluster.kubeconfig)
    version = (REPOSITORY / "VERSION").read_text().strip()
    assert (status, f"ok       Versions: {version} everywhere\n" in text) == (0, True), text
    assert "warning  Node tuning: not installed" in text

    older = {"metadata": {"labels": {"helm.sh/chart": "service-0.0.1"}}}
    cluster.change(f"{path}/web-server", older)
    status, text = doctor(cluster.kubeconfig)
    assert (status, "FAILED   Versions: 0.0.1: chart service of shop/web-server; " in text) == (
        1,
        True,
    )


def test_no_api_server_is_one_failed_check(tmp_path: Path) -> None:
    status, text = doctor(tmp_path / "absent")
    assert (status, text.count("FAILED")) == (1, 1)
    assert "FAILED   Kubernetes version: the API server does not reply: " in text
