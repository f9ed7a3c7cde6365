"""A HorizontalPodAutoscaler adds and removes replicas based on real metrics, under a changing load.

A replica has a tenth of a CPU, so that many of them, the gateway and the load have room on two CPUs. All
periods are a fifth of those in production: of the controller, of scrapes, of the rules' windows and of the
HPA's behaviour. With `--whole-periods`, all but the controller's are as long as in production, and load
profiles take five times as long; the wait for the minimum of replicas after them then needs TEST_SLOWER=2.
`make e2e TESTS="-k autoscaling -s --rounds 3"` prints the figures of docs/results/autoscaling.md.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from cluster import settings
from deploy import run
from release.charts import vendored
from stack import eventually
from stack.http import Client, ask
from support.kubernetes import PAUSE, ROLL_OUT, Pod
from support.load_profiles import (
    COST,
    LOAD_PROFILES,
    Lives,
    LoadProfile,
    Replicas,
    Stage,
    fewest,
    level,
    slope,
)
from support.releases import CHART, Release

pytestmark = pytest.mark.skipif(
    settings.kind() != "local", reason="the controller is that of others"
)

CPU = 0.1
"""CPUs of a replica."""
TARGET = 0.6
"""Target for the busy share of lanes, and for CPU utilisation."""
OBJECTIVE = 1.0
"""Seconds within which a request should be answered: ten times its duration without other load."""
SPARE = 1
"""Replicas that may be unavailable, as in `corelane capacity --hpa`."""
LEAST, MOST = 1 + SPARE, 7
REQUESTS = settings.FOLDER / "values-gateway-requests.yaml"
STARTS = 6

SPANS = [
    *(("created", "scheduled"), ("scheduled", "began"), ("began", "ready"), ("ready", "replied")),
    *(("began", "replied"), ("created", "replied"), ("deleted", "gone")),
]
"""Printed spans in the life of a replica."""

STABLE = 12
"""Seconds before an autoscaler removes replicas, at pace 1."""

AWAY = 60
"""Seconds without metrics, at pace 1: five minutes with whole periods."""


def behavior(pace: int) -> dict:
    """Returns the behaviour that `corelane capacity --hpa` writes and Kubernetes defaults to, the same for all
    metrics.
    """
    percent = {"type": "Percent", "value": 100, "periodSeconds": 3 * pace}
    pods = {"type": "Pods", "value": 4, "periodSeconds": 3 * pace}
    down = {"type": "Percent", "value": 50, "periodSeconds": 12 * pace}
    return {
        "scaleUp": {"policies": [percent, pods]},
        "scaleDown": {"policies": [down], "stabilizationWindowSeconds": STABLE * pace},
    }


def pods_metric(name: str, target: str) -> dict:
    """Returns a metric of replicas, averaged across them."""
    metric = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": target}}
    return {"cpuPercent": 0, "metrics": [{"type": "Pods", "pods": metric}]}


def external_metric(name: str, service: str) -> dict:
    """Returns a metric of the service whose unit is replicas."""
    selected = {"name": name, "selector": {"matchLabels": {"service": service}}}
    metric = {"metric": selected, "target": {"type": "AverageValue", "averageValue": "1"}}
    return {"cpuPercent": 0, "metrics": [{"type": "External", "external": metric}]}


POLICIES = {
    "busy": pods_metric("corelane_lane_busy_ratio", f"{TARGET * 1000:.0f}m"),
    # The wait behind a queue of one request.
    "wait": pods_metric("corelane_expected_wait_seconds", f"{COST * 1000:.0f}m"),
    "required": external_metric("corelane_replicas_required", "corelane-server"),
    "cpu": {"cpuPercent": round(TARGET * 100), "metrics": []},
}


@dataclass
class Scaled:
    """The platform with an autoscaled server, and its monitoring."""

    release: Release
    file: Path
    pace: int
    """Factor of all periods: at 1 they are a fifth of those in production, at 5 the same."""
    ops: int = 0
    policy: str = ""
    """The metric that the autoscaler follows."""
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each span in the life of replicas, for all load profiles."""
    figures: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    """Figures that `drive` prints, for all rounds of a profile."""

    @property
    def server(self) -> str:
        """Names of the Deployment and its HorizontalPodAutoscaler."""
        return f"{self.release.name}-server"

    @property
    def prometheus(self) -> str:
        """Names of Prometheus' StatefulSet and its Service."""
        return f"{self.release.name}-monitoring-prometheus"

    def follow(self, policy: str) -> None:
        """Scales by a metric from now on; waits until the autoscaler receives it and the minimum of replicas
        remains.
        """
        if policy != self.policy:
            self._install(policy)
        eventually(self.active, f"metrics of {policy}", patience=ROLL_OUT, pause=PAUSE)
        self.settle(LEAST)
        self.release.wait_until_it_answers()

    def _install(self, policy: str) -> None:
        autoscaling = {**POLICIES[policy], "behavior": behavior(self.pace)}
        autoscaling |= {"enabled": True, "minReplicas": LEAST, "maxReplicas": MOST}
        resources = {
            "requests": {"cpu": f"{CPU * 1000:.0f}m", "memory": "64Mi"},
            "limits": {"cpu": f"{CPU * 1000:.0f}m", "memory": "128Mi"},
        }
        service = {"pinning": "shared", "resources": resources, "autoscaling": autoscaling}
        adapter = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
        }
        monitoring = {
            "enabled": True,
            "alertmanager": {"enabled": False},
            "scrape": {"interval": f"{2 * self.pace}s", "timeout": "2s"},
            "networkPolicy": {"clients": [adapter]},
            # The latency objective allows more than the target, so that all policies have the same target. Only
            # the part of the lead that metrics cause shrinks.
            "objectives": {
                "capacityUsed": TARGET,
                "latencyThreshold": "2500ms",
                "spareReplicas": SPARE,
                "replicaLead": 5 if self.pace == 1 else 15,
            },
        }
        self.file.write_text(json.dumps({"service": service, "monitoring": monitoring}))
        self.release.upgrade()
        self.policy = policy

    def active(self) -> bool:
        """Whether the autoscaler receives its metric."""
        status = self.release.cluster.get("hpa", self.server)["status"]
        found = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return found.get("ScalingActive") == "True"

    def settle(self, count: int) -> None:
        """Waits for this number of replicas."""
        self.release.cluster.wait_for_pods("server", count)

    def calibrate(self) -> None:
        """Measures the work that occupies a lane for `COST` of CPU time on this machine."""
        trial, number = 5_000_000, 10
        with ExitStack() as open_ports:
            admins = [
                open_ports.enter_context(self.release.cluster.forwarded(pod.name, 8081))
                for pod in self.release.cluster.ready_pods("server")
            ]
            before = self._cpu(admins)
            client = Client(self.release.gateway)
            for _ in range(number):
                assert client.ask(f"/work?ops={trial}").status == 200
            client.close()
            each = (self._cpu(admins) - before) / number
        self.ops = round(trial * COST * CPU / each)

    def _cpu(self, admins: Sequence[str]) -> float:
        texts = [ask(admin, "/metrics").body.decode() for admin in admins]
        name = "corelane_lane_cpu_seconds_total{"
        lines = [line for text in texts for line in text.splitlines()]
        return sum(float(line.split()[1]) for line in lines if line.startswith(name))

    def profile(self, stages: Sequence[Stage], ops: int = 0) -> LoadProfile:
        """Returns a load profile through the gateway."""
        return LoadProfile(self.release.gateway, stages, ops or self.ops)

    @contextmanager
    def replicas(self) -> Iterator[Replicas]:
        """Records the autoscaler's decisions during the context."""
        found = Replicas()
        with self.release.cluster.watched(found.take, "deployment", self.server):
            eventually(lambda: found.had, "the Deployment")
            yield found

    @contextmanager
    def lives(self) -> Iterator[Lives]:
        """Records the life of replicas during the context."""
        found = Lives(began)
        chosen = ("--selector", "app.kubernetes.io/name=corelane-server", "--output-watch-events")
        with self.release.cluster.watched(found.take, "pods", *chosen):
            eventually(lambda: found.times, "a replica")
            yield found

    @contextmanager
    def slowed(self, pod: Pod) -> Iterator[None]:
        """Limits a pod's container to half of its CPU, without Kubernetes' knowledge."""
        kept = {
            file: file.read_text()
            for name in ("cpu.cfs_period_us", "cpu.max")
            for file in cgroups(pod.uid, name)
        }
        assert kept, f"no cgroup of {pod.name}"
        for file, text in kept.items():
            *quota, period = text.split()
            file.write_text(" ".join([*quota, str(2 * int(period))]))
        yield
        # The replica may no longer exist.
        for file, text in kept.items():
            with suppress(OSError):
                file.write_text(text)

    def bystander(self, *, service: bool) -> tuple[float, float]:
        """Starts a pod like a replica but unknown to gateways; returns the time at which it is ready.

        It has a separate Service, so that the kube-proxy of each node writes rules for it, like for a replica.
        """
        cluster, name, labels = self.release.cluster, "bystander", {"app": "bystander"}
        template = cluster.get("deployment", self.server)["spec"]["template"]
        metadata = {"name": name}
        deployment = {"selector": {"matchLabels": labels}}
        deployment["template"] = {**template, "metadata": {"labels": labels}}
        made = [("apps/v1", "Deployment", deployment)]
        if service:
            made.append(("v1", "Service", {"selector": labels, "ports": [{"port": 80}]}))
        items = [
            {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
            for version, kind, spec in made
        ]
        listed = {"apiVersion": "v1", "kind": "List", "items": items}
        begun = time.monotonic()
        cluster.kubectl("apply", "--filename", "-", stdin=json.dumps(listed))
        cluster.kubectl("rollout", "status", f"deployment/{name}")
        if service:
            slices = ("endpointslices", "--selector", f"kubernetes.io/service-name={name}")
            cluster.kubectl("wait", "--for=jsonpath={.endpoints[0].conditions.ready}=true", *slices)
        ended = time.monotonic()
        cluster.kubectl("delete", "service", name, "--ignore-not-found")
        cluster.kubectl("delete", "deployment", name, "--cascade=foreground")
        return begun, ended

    def collect(self, lives: Lives, profile: LoadProfile) -> None:
        """Records how long replicas took to start and to terminate."""
        lives.note("replied", profile.first)
        for begin, end in SPANS:
            took = [b - a for a, b in lives.between(profile.started, begin, end)]
            self.spans.setdefault(f"{begin} to {end}", []).extend(took)


def cgroups(uid: str, name: str) -> list[Path]:
    """Returns the files with this name in the cgroups (v1 or v2) of a pod's containers."""
    mounted, below = settings.load().cgroups, f"corelane-*/kubepods/**/pod{uid}/*/{name}"
    return [file for version in ("cpu", ".") for file in (mounted / version).glob(below)]


def began(uid: str) -> float:
    """Returns the start time of a pod's youngest process; the sandbox also has one."""
    pids = [pid for file in cgroups(uid, "cgroup.procs") for pid in file.read_text().split()]
    stats = [Path("/proc", pid, "stat").read_text().rpartition(")")[2].split() for pid in pids]
    since_boot = max(float(stat[19]) for stat in stats) / os.sysconf("SC_CLK_TCK")
    return since_boot + time.monotonic() - time.clock_gettime(time.CLOCK_BOOTTIME)


@pytest.fixture(scope="module")
def scaled(
    deployed: Release,
    monitoring_images: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[Scaled]:
    """Yields the platform with both metrics servers, until the end of the module."""
    whole = pytestconfig.getoption("whole_periods")
    file = tmp_path_factory.mktemp("autoscaling") / "values.yaml"
    release = replace(
        deployed,
        chart=CHART if whole else fifth(file.parent),
        # Without a CPU request, gateways have almost no weight against the replicas.
        values=[*deployed.values, REQUESTS, file],
        settings=[*deployed.settings, *monitoring_images],
    )
    found = Scaled(release, file, pace=5 if whole else 1)
    url = f"http://{found.prometheus}.{release.cluster.namespace}.svc:9090"
    run.ours("cluster", "autoscaling", "--prometheus", url, *(["--whole"] if whole else []))
    try:
        found.follow("busy")
        found.calibrate()
        yield found
        for name, rounds in found.figures.items():
            print(f"\n| {name} | {' | '.join(map(spread, zip(*rounds, strict=True)))} |", end="")
        for name, seconds in found.spans.items():
            print(f"\n| {name} | {len(seconds)} | {spread(seconds)} |", end="")
    finally:
        # While an API is registered without its server, no namespace can be deleted.
        run.ours("cluster", "autoscaling", "--remove")


def spread(values: Sequence[float]) -> str:
    """Returns median, minimum and maximum."""
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def fifth(folder: Path) -> Path:
    """Copies the platform's chart, with the periods and windows of the capacity rules divided by five."""
    chart = vendored(CHART, folder)
    for name in ("capacity", "server"):
        file = chart / "charts" / "monitoring" / "rules" / f"{name}.rules.yaml"
        text = re.sub(r"\[(\d+)m\]", lambda found: f"[{int(found[1]) * 12}s]", file.read_text())
        for whole, part in (
            ("[30s]", "[6s]"),
            ("interval: 15s", "interval: 3s"),
            (" / 60", " / 12"),
        ):
            text = text.replace(whole, part)
        file.write_text(text)
    return chart


def drive(scaled: Scaled, name: str, policy: str) -> tuple[LoadProfile, Replicas]:
    """Runs a profile until the minimum of replicas remains, and prints its figures."""
    stages = [replace(stage, seconds=stage.seconds * scaled.pace) for stage in LOAD_PROFILES[name]]
    with scaled.lives() as lives, scaled.replicas() as replicas:
        with scaled.profile(stages) as profile, ExitStack() as slow:
            for stage in profile.begun():
                slow.close()
                if stage.slow:
                    one, *_ = scaled.release.cluster.ready_pods("server")
                    slow.enter_context(scaled.slowed(one))
        scaled.settle(LEAST)
    scaled.collect(lives, profile)
    used, least = replicas.seconds(*profile.judged), fewest(stages[1:], TARGET / COST, SPARE)
    held = 100 * profile.held(OBJECTIVE)
    figures = (held, used / least, max(replicas.wanted), replicas.reversals)
    scaled.figures.setdefault(f"{name} | {policy}", []).append(figures)
    print(f"\n| {name} | {policy} | {' | '.join(f'{each:.2f}' for each in figures)} |", end="")
    return profile, replicas


# At a low load the wait is zero, so it only indicates a step.
CASES = [(policy, name) for policy in ("busy", "required", "cpu") for name in LOAD_PROFILES]


@pytest.mark.parametrize(("policy", "name"), [*CASES, ("wait", "step")])
@pytest.mark.usefixtures("round")
def test_replicas_follow_the_load_and_no_request_fails(
    scaled: Scaled, policy: str, name: str
) -> None:
    scaled.follow(policy)
    profile, replicas = drive(scaled, name, policy)
    assert not profile.failures, profile.failures[:10]
    # metrics-server scrapes every 10 s, so it can miss the six seconds of the flash.
    assert max(replicas.wanted) > LEAST or (policy, name) == ("cpu", "flash")


def test_a_start_and_an_end_leave_the_other_replicas_alone(scaled: Scaled) -> None:
    """Prints the latency of the other replicas before and during the start of a pod without traffic."""
    cluster = scaled.release.cluster
    scaled.follow("busy")
    # The next call of `follow` creates it again.
    scaled.policy = ""
    cluster.kubectl("delete", "hpa", scaled.server)
    cluster.kubectl("scale", "deployment", scaled.server, "--replicas=2")
    old = {pod.name for pod in cluster.wait_for_pods("server", 2)}
    with scaled.lives() as lives, scaled.profile([level(600, 10)], ops=1000) as profile:

        def answered(count: int, pods: set[str]) -> None:
            """Waits for this many responses of these pods."""
            got = partial(profile.replies_of, pods)
            eventually(lambda: got() >= count, f"replies of {pods}", patience=ROLL_OUT)

        answered(3000, old)
        before = (profile.started, time.monotonic())
        pods, services = (
            [scaled.bystander(service=each) for _ in range(STARTS)] for each in (False, True)
        )
        for _ in range(STARTS):
            cluster.kubectl("scale", "deployment", scaled.server, "--replicas=3")
            answered(100, {pod.name for pod in cluster.wait_for_pods("server", 3)} - old)
            cluster.kubectl("scale", "deployment", scaled.server, "--replicas=2")
            cluster.wait_for_pods("server", 2)
        profile.stop()
    scaled.collect(lives, profile)
    for what, spans in {
        "before": [before],
        "starts of others": pods,
        "starts of others with a Service": services,
        "starts": lives.between(profile.started, "created", "replied"),
        "ends": lives.between(profile.started, "deleted", "gone"),
    }.items():
        took = sorted(profile.took(old, spans))
        p50, p99 = (1e3 * took[int(len(took) * share)] for share in (0.5, 0.99))
        print(f"\n| {what} | {len(took)} | {p50:.1f} ms | {p99:.1f} ms |", end="")
    assert not profile.failures, profile.failures[:10]


def test_metrics_that_are_away_remove_no_replica(scaled: Scaled) -> None:
    """Prometheus stops when three replicas are needed, and returns when more are needed."""
    cluster = scaled.release.cluster
    scaled.follow("busy")
    stages = [level(40 * scaled.pace, 1.5), slope(200 * scaled.pace, 1.5, 3)]
    with scaled.replicas() as replicas, scaled.profile(stages) as profile:
        eventually(lambda: max(replicas.wanted) >= 3, "three replicas", patience=ROLL_OUT)
        cluster.kubectl("scale", "statefulset", scaled.prometheus, "--replicas=0")
        eventually(lambda: not scaled.active(), "no metrics", patience=ROLL_OUT, pause=PAUSE)
        before = list(replicas.wanted)
        gone = time.monotonic() + AWAY * scaled.pace
        eventually(lambda: time.monotonic() > gone, patience=ROLL_OUT, pause=PAUSE)
        assert replicas.wanted == before
        cluster.kubectl("scale", "statefulset", scaled.prometheus, "--replicas=1")
        eventually(scaled.active, "metrics again", patience=ROLL_OUT, pause=PAUSE)
        eventually(lambda: replicas.wanted[-1] > before[-1], "more", patience=ROLL_OUT, pause=PAUSE)
        profile.stop()
    assert not profile.failures, profile.failures[:10]
