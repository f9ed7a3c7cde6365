"""A HorizontalPodAutoscaler scales on real metrics under a changing load.

Replicas get a tenth of a CPU, so that everything fits on two CPUs. All periods are a fifth of
production: controller, scrapes, rule windows and HPA behaviour. `--whole-periods` restores all but
the controller's and makes load profiles five times as long; waiting for the final scale-down then
needs TEST_SLOWER=2. `make e2e TESTS="-k autoscaling -s --rounds 3"` prints the figures for
docs/results/autoscaling.md.
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
TARGET = 0.6
"""Busy share of lanes and CPU utilisation."""
OBJECTIVE = 1.0
"""Latency objective in seconds: ten times an unloaded request."""
SPARE = 1
"""Number of spare replicas, as in `corelane capacity --hpa`."""
LEAST, MOST = 1 + SPARE, 7
REQUESTS = settings.FOLDER / "values-gateway-requests.yaml"
STARTS = 6

SPANS = [
    *(("created", "scheduled"), ("scheduled", "began"), ("began", "ready"), ("ready", "replied")),
    *(("began", "replied"), ("created", "replied"), ("deleted", "gone")),
]

STABLE = 12
"""Stabilisation window in seconds, at pace 1."""

AWAY = 60
"""Metrics outage in seconds, at pace 1: five minutes with whole periods."""


def behavior(pace: int) -> dict:
    """The Kubernetes default, also written by `corelane capacity --hpa`; the same for all metrics."""
    percent = {"type": "Percent", "value": 100, "periodSeconds": 3 * pace}
    pods = {"type": "Pods", "value": 4, "periodSeconds": 3 * pace}
    down = {"type": "Percent", "value": 50, "periodSeconds": 12 * pace}
    return {
        "scaleUp": {"policies": [percent, pods]},
        "scaleDown": {"policies": [down], "stabilizationWindowSeconds": STABLE * pace},
    }


def pods_metric(name: str, target: str) -> dict:
    metric = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": target}}
    return {"cpuPercent": 0, "metrics": [{"type": "Pods", "pods": metric}]}


def external_metric(name: str, service: str) -> dict:
    """A service-level metric in units of replicas."""
    selected = {"name": name, "selector": {"matchLabels": {"service": service}}}
    metric = {"metric": selected, "target": {"type": "AverageValue", "averageValue": "1"}}
    return {"cpuPercent": 0, "metrics": [{"type": "External", "external": metric}]}


POLICIES = {
    "busy": pods_metric("corelane_lane_busy_ratio", f"{TARGET * 1000:.0f}m"),
    # The wait behind one queued request.
    "wait": pods_metric("corelane_expected_wait_seconds", f"{COST * 1000:.0f}m"),
    "required": external_metric("corelane_replicas_required", "corelane-server"),
    "cpu": {"cpuPercent": round(TARGET * 100), "metrics": []},
}


@dataclass
class Scaled:
    release: Release
    file: Path
    pace: int
    """Length of all periods: 1 is a fifth of the production periods, and 5 is their full length."""
    ops: int = 0
    policy: str = ""
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Durations in a replica's life in seconds, across all profiles."""
    figures: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    """Results of `drive` over all rounds."""

    @property
    def server(self) -> str:
        return f"{self.release.name}-server"

    @property
    def prometheus(self) -> str:
        return f"{self.release.name}-monitoring-prometheus"

    def follow(self, policy: str) -> None:
        """Switches to another metric and waits until it is available and only the minimum number of
        replicas is left.
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
            # The latency objective is loose, so that all policies share one target. At pace 1, only
            # the part of the lead time that metrics cause is shorter.
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
        status = self.release.cluster.get("hpa", self.server)["status"]
        found = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return found.get("ScalingActive") == "True"

    def settle(self, count: int) -> None:
        self.release.cluster.wait_for_pods("server", count)

    def calibrate(self) -> None:
        """Finds the work that keeps a lane busy for `COST` seconds here."""
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
        return LoadProfile(self.release.gateway, stages, ops or self.ops)

    @contextmanager
    def replicas(self) -> Iterator[Replicas]:
        found = Replicas()
        with self.release.cluster.watched(found.take, "deployment", self.server):
            eventually(lambda: found.had, "the Deployment")
            yield found

    @contextmanager
    def lives(self) -> Iterator[Lives]:
        found = Lives(began)
        chosen = ("--selector", "app.kubernetes.io/name=corelane-server", "--output-watch-events")
        with self.release.cluster.watched(found.take, "pods", *chosen):
            eventually(lambda: found.times, "a replica")
            yield found

    @contextmanager
    def slowed(self, pod: Pod) -> Iterator[None]:
        """Halves a container's CPU without Kubernetes noticing."""
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
        # The replica may be gone.
        for file, text in kept.items():
            with suppress(OSError):
                file.write_text(text)

    def bystander(self, *, service: bool) -> tuple[float, float]:
        """Starts a pod that is like a replica but gets no traffic; returns the time at which it
        became ready.

        Its separate Service makes each kube-proxy write rules, as for a replica.
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
        """Collects startup and termination times."""
        lives.note("replied", profile.first)
        for begin, end in SPANS:
            took = [b - a for a, b in lives.between(profile.started, begin, end)]
            self.spans.setdefault(f"{begin} to {end}", []).extend(took)


def cgroups(uid: str, name: str) -> list[Path]:
    """Finds this file in a container's cgroups (v1 or v2)."""
    mounted, below = settings.load().cgroups, f"corelane-*/kubepods/**/pod{uid}/*/{name}"
    return [file for version in ("cpu", ".") for file in (mounted / version).glob(below)]


def began(uid: str) -> float:
    """The youngest process, because the sandbox also has a process."""
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
    whole = pytestconfig.getoption("whole_periods")
    file = tmp_path_factory.mktemp("autoscaling") / "values.yaml"
    release = replace(
        deployed,
        chart=CHART if whole else fifth(file.parent),
        # Without a CPU request, gateways would be starved by the replicas.
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
        # Namespace deletion hangs while an API is registered without a server.
        run.ours("cluster", "autoscaling", "--remove")


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def fifth(folder: Path) -> Path:
    """The platform's chart with a fifth of all rule periods and windows."""
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
    """Runs a profile until only the minimum number of replicas is left, and prints its figures."""
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


# The `wait` policy is omitted: at low load the wait is zero, so it only detects steps.
CASES = [(policy, name) for policy in ("busy", "required", "cpu") for name in LOAD_PROFILES]


@pytest.mark.parametrize(("policy", "name"), [*CASES, ("wait", "step")])
@pytest.mark.usefixtures("round")
def test_replicas_follow_the_load_and_no_request_fails(
    scaled: Scaled, policy: str, name: str
) -> None:
    scaled.follow(policy)
    profile, replicas = drive(scaled, name, policy)
    assert not profile.failures, profile.failures[:10]
    # metrics-server scrapes every 10 s and can miss the six-second flash.
    assert max(replicas.wanted) > LEAST or (policy, name) == ("cpu", "flash")


def test_a_start_and_an_end_leave_the_other_replicas_alone(scaled: Scaled) -> None:
    """Prints the latency of other replicas before and during the start of a pod without traffic."""
    cluster = scaled.release.cluster
    scaled.follow("busy")
    # Forces `follow` to recreate it.
    scaled.policy = ""
    cluster.kubectl("delete", "hpa", scaled.server)
    cluster.kubectl("scale", "deployment", scaled.server, "--replicas=2")
    old = {pod.name for pod in cluster.wait_for_pods("server", 2)}
    with scaled.lives() as lives, scaled.profile([level(600, 10)], ops=1000) as profile:

        def answered(count: int, pods: set[str]) -> None:
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
    """Prometheus stops at three replicas and returns when more are needed."""
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
