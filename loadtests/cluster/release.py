"""Installs the release of charts/loadtest for one run, and removes it."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from deploy import images, run
from tools import progress, resolve, table, versions
from tools.errors import ToolError


class Kubectl:
    """Queries one cluster's API server. The cluster is determined only once."""

    def __init__(self) -> None:
        self.namespace = run.namespace()
        self.environment = {**os.environ, "KUBECONFIG": str(run.kubeconfig())}
        self._programs = resolve.ensure(["kubectl", "helm"])

    def argv(self, *arguments: str) -> list[str | Path]:
        return [self._programs["kubectl"], "--namespace", self.namespace, *arguments]

    def items(self, *what: str) -> list[dict]:
        return json.loads(self._run(self.argv("get", *what, "--output", "json")))["items"]

    def helm(self, *arguments: str | Path) -> str:
        return self._run([self._programs["helm"], "--namespace", self.namespace, *arguments])

    def _run(self, argv: list[str | Path]) -> str:
        result = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            # Helm reports the links through which it reads a chart.
            said = [line for line in result.stderr.splitlines() if not line.startswith("level=")]
            raise ToolError(f"{Path(argv[0]).name} {argv[3]} failed: {' '.join(said).strip()}")
        return result.stdout


CHART = run.REPOSITORY / "charts" / "loadtest"
OF_OUR_CLUSTERS = run.REPOSITORY / "hack" / "cluster" / "loadtest.yaml"
RECEIVER = "--web.enable-remote-write-receiver"
TIMEOUT = "2m"


@dataclass(frozen=True)
class Wanted:
    scenario: str
    runners: int
    release: str
    testid: str
    settings: dict[str, object]
    target: str = ""
    values: list[Path] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Differs from the name of the scenario's local runs, which are not comparable."""
        return f"cluster-{self.scenario}"


@dataclass(frozen=True)
class Receiver:
    service: str
    port: int


@dataclass(frozen=True)
class Installed:
    job: str
    target: str
    replicas: list[str]
    k6_version: str
    deadline: float
    """Seconds after which the cluster terminates the run."""
    selector: str
    receiver: Receiver | None

    @property
    def jobs(self) -> tuple[str, str]:
        """Names of the runners' Job and of the Job that starts them."""
        return self.job, f"{self.job}-start"


def install(kubectl: Kubectl, wanted: Wanted) -> Installed:
    listed = kubectl.helm("list", "--filter", f"^{wanted.release}$", "--output", "json")
    if json.loads(listed):
        raise ToolError(
            f"the release {wanted.release} is in {kubectl.namespace} already: another run, or one "
            f"that was kept. Choose another name with --release, or helm uninstall {wanted.release}"
        )
    replicas = [] if wanted.target else _replicas(kubectl)
    receiver = _receiver(kubectl)
    arguments = _arguments(kubectl, wanted, replicas, receiver)
    selector = (
        f"app.kubernetes.io/instance={wanted.release},"
        "app.kubernetes.io/name in (corelane-loadtest, corelane-loadtest-start)"
    )
    try:
        with progress.step("cluster", f"installing {wanted.release} in {kubectl.namespace}"):
            kubectl.helm("install", wanted.release, CHART, *arguments, "--timeout", TIMEOUT)
        job, _ = sorted(
            kubectl.items("jobs", "--selector", selector), key=lambda each: each["metadata"]["name"]
        )
    except BaseException:
        uninstall(kubectl, wanted.release)
        raise
    (container,) = job["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", "") for each in container["env"]}
    return Installed(
        job["metadata"]["name"],
        environment["BASE_URL"],
        replicas,
        _k6_version(container["image"]),
        job["spec"]["activeDeadlineSeconds"],
        selector,
        receiver,
    )


def uninstall(kubectl: Kubectl, release: str) -> None:
    kubectl.helm("uninstall", release, "--ignore-not-found", "--wait", "--timeout", TIMEOUT)


def _arguments(
    kubectl: Kubectl, wanted: Wanted, replicas: list[str], receiver: Receiver | None
) -> list[str | Path]:
    arguments: list[str | Path] = []
    if run.cluster() != "current":
        built = images.build("k6")
        images.bring([built.archive])
        arguments += ["--values", OF_OUR_CLUSTERS, "--set-string", f"image.tag={built.tag}"]
    chosen = {
        "scenario": wanted.scenario,
        "runners": wanted.runners,
        "testid": wanted.testid,
        "settings": {name.upper(): value for name, value in wanted.settings.items()},
        "target.replicas": replicas,
        "target.url": wanted.target,
        "remoteWrite.url": _url(kubectl, receiver),
    }
    for key, value in chosen.items():
        arguments += ["--set-json", f"{key}={json.dumps(value)}"]
    for file in wanted.values:
        arguments += ["--values", file]
    for setting in wanted.sets:
        arguments += ["--set", setting]
    return arguments


def _k6_version(image: str) -> str:
    """k6 version of this tree's image, which is built from the same module as the tool here;
    otherwise the tag.
    """
    if "corelane-k6:" in image:
        return versions.remembered(resolve.ensure(["k6"])["k6"], table.find("k6"))
    return image.rpartition(":")[2]


def _replicas(kubectl: Kubectl) -> list[str]:
    """Names of the ready replicas, each of which must respond."""
    chosen = f"app.kubernetes.io/component=replica,app.kubernetes.io/instance={run.release()}"
    pods = kubectl.items("pods", "--selector", chosen)
    ready = {"type": "Ready", "status": "True"}
    return sorted(
        pod["metadata"]["name"]
        for pod in pods
        if any(ready.items() <= each.items() for each in pod["status"].get("conditions", []))
    )


def _receiver(kubectl: Kubectl) -> Receiver | None:
    for each in kubectl.items("statefulsets", "--selector", "app.kubernetes.io/name=prometheus"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        if RECEIVER in container["args"]:
            return Receiver(each["metadata"]["name"], container["ports"][0]["containerPort"])
    return None


def _url(kubectl: Kubectl, receiver: Receiver | None) -> str:
    if receiver is None:
        return ""
    return f"http://{receiver.service}.{kubectl.namespace}.svc:{receiver.port}/api/v1/write"
