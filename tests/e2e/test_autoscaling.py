"""Replicas that a HorizontalPodAutoscaler adds and removes, by the metrics of a real path, under a changing load.

A replica has a tenth of a CPU, so that many of them, the gateway and the load have room on two CPUs. All periods are a
fifth of those of a cluster in use: of the controller, of scrapes, of the rules' windows and of the HPA's behaviour.
`make e2e TESTS="-k autoscaling -s"` prints what docs/autoscaling.md has.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cluster import settings
from deploy import run
from support import eventually
from support.client import Client, ask
from support.courses import Course, Replicas, Stage, Starts, fewest
from support.kubernetes import PAUSE, ROLL_OUT
from support.releases import Release

pytestmark = pytest.mark.skipif(
    settings.kind() != "local", reason="the controller is that of others"
)

CPU = 0.1
"""Of a replica."""
COST = 0.1
"""Seconds that a request of cost 1 holds a lane of such a replica."""
TARGET = 0.6
"""Busy share of lanes, and CPU utilisation."""
OBJECTIVE = 1.0
"""Seconds within which a request is to be answered: ten times what it takes alone."""
MOST = 6

BEHAVIOR = {
    "scaleUp": {"policies": [{"type": "Percent", "value": 100, "periodSeconds": 3}]},
    "scaleDown": {
        "stabilizationWindowSeconds": 20,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 6}],
    },
}


def pods_metric(name: str, target: str) -> dict:
    """A metric of replicas, by their mean."""
    metric = {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": target}}
    return {"cpuPercent": 0, "metrics": [{"type": "Pods", "pods": metric}]}


POLICIES = {
    "busy": pods_metric("corelane_lane_busy_ratio", f"{TARGET * 1000:.0f}m"),
    # A queue of one request.
    "wait": pods_metric("corelane_expected_wait_seconds", f"{COST * 1000:.0f}m"),
    "cpu": {"cpuPercent": round(TARGET * 100), "metrics": []},
}


def rate(replicas: float) -> float:
    """Requests of cost 1 per second that keep the lanes of so many replicas busy all the time."""
    return replicas / COST


COURSES = {
    "ramp": [
        Stage(15, rate(0.5), rate(0.5)),
        Stage(40, rate(0.5), rate(2.5)),
        Stage(15, rate(2.5), rate(2.5)),
        Stage(40, rate(0.3), rate(0.3)),
    ],
    "step": [
        Stage(20, rate(0.9), rate(0.9)),
        Stage(40, rate(2.7), rate(2.7)),
        Stage(40, rate(0.3), rate(0.3)),
    ],
    # The same rate of more expensive requests.
    "mix": [
        Stage(20, rate(0.9), rate(0.9)),
        Stage(40, rate(0.9), rate(0.9), cost=2.5),
        Stage(40, rate(0.9), rate(0.9), cost=0.3),
    ],
}


@dataclass
class Scaled:
    """The platform with a server that an autoscaler scales, and its monitoring."""

    release: Release
    file: Path
    ops: int = 0

    @property
    def server(self) -> str:
        """The Deployment and its HorizontalPodAutoscaler."""
        return f"{self.release.name}-server"

    @property
    def prometheus(self) -> str:
        """The StatefulSet of Prometheus, and its Service."""
        return f"{self.release.name}-monitoring-prometheus"

    def follow(self, policy: str) -> None:
        """Scales by a metric from here on, and waits until the autoscaler has it and one replica is left."""
        autoscaling = {**POLICIES[policy], "behavior": BEHAVIOR}
        autoscaling |= {"enabled": True, "minReplicas": 1, "maxReplicas": MOST}
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
            "scrape": {"interval": "2s", "timeout": "2s"},
            "networkPolicy": {"clients": [adapter]},
        }
        self.file.write_text(json.dumps({"service": service, "monitoring": monitoring}))
        self.release.upgrade()
        eventually(self.active, f"metrics of {policy}", patience=ROLL_OUT, pause=PAUSE)
        self.settle(1)
        self.release.wait_until_it_answers()

    def active(self) -> bool:
        """Whether the autoscaler has what it scales by."""
        status = self.release.cluster.get("hpa", self.server)["status"]
        found = {each["type"]: each["status"] for each in status.get("conditions", [])}
        return found.get("ScalingActive") == "True"

    def settle(self, count: int) -> None:
        """Waits for a number of replicas."""
        self.release.cluster.wait_for_pods("server", count)

    def calibrate(self) -> None:
        """Finds what holds a lane for `COST` by CPU time, whatever the machine."""
        (pod,) = self.release.cluster.ready_pods("server")
        trial, number = 5_000_000, 10
        with self.release.cluster.forwarded(pod.name, 8081) as admin:
            before = self._cpu(admin)
            client = Client(self.release.gateway)
            for _ in range(number):
                assert client.ask(f"/work?ops={trial}").status == 200
            client.close()
            each = (self._cpu(admin) - before) / number
        self.ops = round(trial * COST * CPU / each)

    def _cpu(self, admin: str) -> float:
        lines = ask(admin, "/metrics").body.decode().splitlines()
        name = "corelane_lane_cpu_seconds_total{"
        return sum(float(line.split()[1]) for line in lines if line.startswith(name))

    def course(self, stages: Sequence[Stage]) -> Course:
        """A load through the gateway."""
        return Course(self.release.gateway, stages, self.ops)

    @contextmanager
    def replicas(self) -> Iterator[Replicas]:
        """What the autoscaler does meanwhile."""
        found = Replicas()
        with self.release.cluster.watched(found.take, "deployment", self.server):
            eventually(lambda: found.had, "the Deployment")
            yield found


@pytest.fixture(scope="module")
def scaled(
    deployed: Release, monitoring_images: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scaled]:
    """The platform with both servers of metrics, until the end of the module."""
    file = tmp_path_factory.mktemp("autoscaling") / "values.yaml"
    release = replace(
        deployed,
        values=[*deployed.values, file],
        settings=[*deployed.settings, *monitoring_images],
    )
    found = Scaled(release, file)
    url = f"http://{found.prometheus}.{release.cluster.namespace}.svc:9090"
    run.ours("cluster", "autoscaling", "--prometheus", url)
    try:
        found.follow("busy")
        found.calibrate()
        yield found
    finally:
        # While an API is registered whose server is away, no namespace can be deleted.
        run.ours("cluster", "autoscaling", "--remove")


def drive(scaled: Scaled, name: str, policy: str) -> tuple[Course, Replicas]:
    """Runs a course to its end, and prints its figures."""
    stages, starts = COURSES[name], Starts()
    servers = ("pods", "--selector", "app.kubernetes.io/name=corelane-server")
    with (
        scaled.release.cluster.watched(starts.take, *servers),
        scaled.replicas() as replicas,
        scaled.course(stages) as course,
    ):
        pass
    ended = course.started + sum(stage.seconds for stage in stages)
    used, least = replicas.seconds(course.started, ended), fewest(stages, TARGET / COST, 1)
    for ready, replied in starts.seconds(course):
        print(
            f"\nreplica ready {ready:.2f} s after its start, first reply {replied:.2f} s later",
            end="",
        )
    print(
        f"\n| {name} | {policy} | {course.held(OBJECTIVE):.2%} | {len(course.failures)} "
        f"| {used:.0f} | {used / least:.2f} | {max(replicas.wanted)} | {replicas.reversals} |",
        end="",
    )
    return course, replicas


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", COURSES)
def test_replicas_follow_the_load_and_no_request_fails(
    scaled: Scaled, name: str, policy: str
) -> None:
    scaled.follow(policy)
    course, replicas = drive(scaled, name, policy)
    assert not course.failures, course.failures[:10]
    # metrics-server looks every 10 s, whereas all other periods are a fifth of the usual ones.
    assert max(replicas.wanted) > (1 if policy == "cpu" else 2)
    scaled.settle(1)


def test_metrics_that_are_away_remove_no_replica(scaled: Scaled) -> None:
    """Prometheus goes when three replicas are needed, and comes back when more are."""
    cluster = scaled.release.cluster
    scaled.follow("busy")
    stages = [Stage(40, rate(1.5), rate(1.5)), Stage(200, rate(1.5), rate(3))]
    with scaled.replicas() as replicas, scaled.course(stages) as course:
        eventually(lambda: max(replicas.wanted) >= 3, "three replicas", patience=ROLL_OUT)
        cluster.kubectl("scale", "statefulset", scaled.prometheus, "--replicas=0")
        eventually(lambda: not scaled.active(), "no metrics", patience=ROLL_OUT, pause=PAUSE)
        before = list(replicas.wanted)
        # Longer than the autoscaler waits before it removes a replica.
        gone = time.monotonic() + 2 * BEHAVIOR["scaleDown"]["stabilizationWindowSeconds"]
        eventually(lambda: time.monotonic() > gone, patience=ROLL_OUT, pause=PAUSE)
        assert replicas.wanted == before
        cluster.kubectl("scale", "statefulset", scaled.prometheus, "--replicas=1")
        eventually(scaled.active, "metrics again", patience=ROLL_OUT, pause=PAUSE)
        eventually(lambda: replicas.wanted[-1] > before[-1], "more", patience=ROLL_OUT, pause=PAUSE)
        course.stop()
    assert not course.failures, course.failures[:10]
