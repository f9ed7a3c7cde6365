"""A real Prometheus and Alertmanager with the drill's rules, which watch the processes of all
drills.

Alertmanager's own configuration has divided durations, and a webhook receives the alerts.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import yaml

from dashboards.drill import factor
from dashboards.drill.verdict import Cancelled, DrillError, Firing
from dashboards.live.assemble import SERVICES
from stack import HOST, REPOSITORY, prometheus
from stack.http import ask, replies
from stack.http_server import Request, serving
from stack.ports import free_ports
from stack.process import running
from tools.resolve import tool

CONFIGURATION = REPOSITORY / "dashboards" / "alertmanager" / "alertmanager.yaml"

FIELDS = ("group_wait", "group_interval", "repeat_interval")


def write(file: Path, url: str, by: int) -> None:
    document = yaml.safe_load(CONFIGURATION.read_text())
    receivers = [
        {
            **receiver,
            "webhook_configs": [{**hook, "url": url} for hook in receiver["webhook_configs"]],
        }
        for receiver in document["receivers"]
    ]
    changed = {**document, "route": route(document["route"], by), "receivers": receivers}
    file.write_text(yaml.safe_dump(changed, sort_keys=False))


def route(entry: dict, by: int) -> dict:
    made = {
        name: factor.divided(value, by) if name in FIELDS else value
        for name, value in entry.items()
    }
    below = [route(each, by) for each in entry.get("routes", [])]
    return {**made, **({"routes": below} if below else {})}


@dataclass
class Webhook:
    url: str = ""
    _told: list[Mapping[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def told(self) -> list[Mapping[str, str]]:
        with self._lock:
            return list(self._told)

    def take(self, message: dict) -> None:
        firing = [each["labels"] for each in message["alerts"] if each["status"] == "firing"]
        with self._lock:
            self._told += firing


@contextmanager
def listening() -> Iterator[Webhook]:
    webhook = Webhook()

    def answer(request: Request) -> None:
        webhook.take(json.loads(request.body()))
        request.reply()

    with serving(answer) as url:
        webhook.url = f"{url}/"
        yield webhook


SCRAPE = "1s"
"""This interval is not divided by the factor, because a late scrape on a busy machine would leave a
gap.
"""

LOOKBACK = "5m"

JOBS = {
    "service": {},
    "gateway": {"metrics_path": "/stats/prometheus"},
    "gateway-agent": {},
    # The `namespace` and `pod` labels identify the checked pod.
    "node-tuning": {"honor_labels": True},
    # The `namespace` and `pod` labels identify the autoscaler.
    "kube-state-metrics": {"honor_labels": True},
    "prometheus": {},
    "alertmanager": {},
}

NAMESPACE = "drill"

START = 60.0


@dataclass
class Watch:
    folder: Path
    factor: int
    prometheus: str = ""
    alertmanager: str = ""
    cancelled: threading.Event = field(default_factory=threading.Event)
    _targets: dict[str, list[dict]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    webhook: Webhook = field(default_factory=Webhook)
    _firing: tuple[float, list[Firing]] = (0.0, [])

    def add(self, job: str, port: int, **labels: str) -> None:
        with self._lock:
            labels = {"service": SERVICES.get(job, job), **labels}
            target = {"targets": [f"{HOST}:{port}"], "labels": labels}
            self._targets.setdefault(job, []).append(target)
            self._write(job)

    def remove(self, namespace: str, pod: str = "") -> None:
        wanted = {"namespace": namespace, **({"pod": pod} if pod else {})}
        with self._lock:
            for job, targets in self._targets.items():
                kept = [each for each in targets if not wanted.items() <= each["labels"].items()]
                self._targets[job] = kept
                self._write(job)

    def _write(self, job: str) -> None:
        fresh = self.folder / f"{job}.new"
        fresh.write_text(json.dumps(self._targets[job]))
        fresh.replace(self.folder / "targets" / f"{job}.json")

    def query(self, expression: str) -> list[dict]:
        reply = ask(self.prometheus, f"/api/v1/query?{urlencode({'query': expression})}")
        answer = json.loads(reply.body)
        if answer["status"] != "success":
            raise DrillError(f"Prometheus rejects {expression}: {answer['error']}")
        return [
            {"labels": each["metric"], "value": float(each["value"][1])}
            for each in answer["data"]["result"]
        ]

    def firing(self) -> list[Firing]:
        with self._lock:
            taken, found = self._firing
            if time.monotonic() - taken > 0.2:
                every = "active=true&inhibited=true&silenced=true&unprocessed=true"
                reply = ask(self.alertmanager, f"/api/v2/alerts?{every}")
                found = [
                    Firing(each["labels"], each["status"]["state"] == "suppressed")
                    for each in json.loads(reply.body)
                ]
                self._firing = time.monotonic(), found
            return found

    def until(self, check: Callable[[], object], seconds: float, what: str) -> None:
        """Waits until the check returns something true."""
        if not self.within(check, seconds):
            raise DrillError(f"timeout after {seconds:.0f} s: {what}")

    def within(self, check: Callable[[], object], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not check():
            if self.cancelled.wait(0.2):
                raise Cancelled
            if time.monotonic() > deadline:
                return False
        return True


@contextmanager
def running_watch(folder: Path, rules: dict[str, dict], by: int) -> Iterator[Watch]:
    """Starts Prometheus and Alertmanager with these rules and divides their durations by a factor."""
    first = free_ports(2)
    watch = Watch(folder, by, f"http://{HOST}:{first}", f"http://{HOST}:{first + 1}")
    (folder / "targets").mkdir(parents=True)
    factor.write(rules, folder / "rules", by)
    (folder / "prometheus.yml").write_text(json.dumps(_prometheus(folder, first + 1)))
    with ExitStack() as stack:
        watch.webhook = stack.enter_context(listening())
        write(folder / "alertmanager.yml", watch.webhook.url, by)
        stack.enter_context(
            running("alertmanager", prometheus.alertmanager(folder, first + 1), folder)
        )
        stack.enter_context(running("prometheus", prometheus_argv(folder, first, by), folder))
        for name, url in (("Prometheus", watch.prometheus), ("Alertmanager", watch.alertmanager)):
            watch.until(lambda url=url: replies(url, "/-/ready"), START, f"{name} is ready")
        watch.add("prometheus", first, namespace=NAMESPACE, pod="prometheus")
        watch.add("alertmanager", first + 1, namespace=NAMESPACE, pod="alertmanager")
        yield watch


def _prometheus(folder: Path, alertmanager: int) -> dict:
    jobs = [
        {
            "job_name": job,
            "file_sd_configs": [{"files": [str(folder / "targets" / f"{job}.json")]}],
            **more,
        }
        for job, more in JOBS.items()
    ]
    return {
        "global": {
            "scrape_interval": SCRAPE,
            "scrape_timeout": SCRAPE,
            "evaluation_interval": SCRAPE,
        },
        "rule_files": [str(folder / "rules" / "*.rules.yaml")],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"{HOST}:{alertmanager}"]}]}]
        },
        "scrape_configs": jobs,
    }


def prometheus_argv(folder: Path, port: int, by: int) -> list[str]:
    """Returns the command line of a Prometheus with its files in a folder."""
    return prometheus.command(
        tool("prometheus"),
        folder,
        port,
        f"--query.lookback-delta={factor.divided(LOOKBACK, by)}",
        # How often firing alerts are sent again; the default is one minute.
        f"--rules.alert.resend-delay={factor.divided('1m', by)}",
    )
