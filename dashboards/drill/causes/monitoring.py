"""Causes: monitoring that is down, or cannot evaluate rules or notify."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dashboards.drill import watch
from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place
from stack import HOST
from stack.http import ask, replies
from stack.ports import free_ports
from stack.process import Process, running
from stack.prometheus import alertmanager as alertmanager_command


def port() -> int:
    return free_ports(1)


def port_of(url: str) -> int:
    return urlsplit(url).port


def wait_for_history(place: Place, job: str) -> None:
    past = f'up{{namespace="{place.namespace}", job="{job}"}} offset 35s'
    place.until(lambda: place.watch.query(past), f"{job} is there for 35 s", 120)


@dataclass
class Watcher:
    process: Process
    url: str
    file: Path
    configuration: dict

    def federate(self, url: str) -> None:
        """Starts scraping another Prometheus' records, or stops if the URL is ""."""
        extra = [_federation(url)] if url else []
        jobs = [*self.configuration["scrape_configs"], *extra]
        self.file.write_text(json.dumps({**self.configuration, "scrape_configs": jobs}))
        reply = ask(self.url, "/-/reload", "POST")
        assert reply.status == 200, reply.body


def _federation(url: str) -> dict:
    return {
        "job_name": "federation",
        "metrics_path": "/federate",
        "params": {"match[]": ['{__name__=~"(slo|service_slo|route_slo):.+"}']},
        "static_configs": [{"targets": [urlsplit(url).netloc]}],
    }


def prometheus(place: Place, alertmanager: int = 0, absent: int = 0) -> Watcher:
    """Starts a second Prometheus, which the first one scrapes. `absent` is a target that does not
    exist.
    """
    folder = place.folder / "prometheus"
    folder.mkdir()
    number = port()
    configuration = {
        "global": dict.fromkeys(
            ("scrape_interval", "scrape_timeout", "evaluation_interval"), watch.SCRAPE
        ),
        "rule_files": [str(place.watch.folder / "rules" / "*.rules.yaml")],
        "scrape_configs": [],
    }
    if absent:
        target = {
            "targets": [f"{HOST}:{absent}"],
            "labels": {"namespace": place.namespace, "service": "server", "pod": "absent"},
        }
        configuration["scrape_configs"] = [{"job_name": "service", "static_configs": [target]}]
    if alertmanager:
        address = {"static_configs": [{"targets": [f"{HOST}:{alertmanager}"]}]}
        configuration["alerting"] = {"alertmanagers": [address]}
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(configuration))
    argv = [*watch.prometheus_argv(folder, number, place.watch.factor), "--web.enable-lifecycle"]
    process = place.stack.enter_context(running("prometheus", argv, folder))
    made = Watcher(process, f"http://{HOST}:{number}", file, configuration)
    place.until(lambda: replies(made.url, "/-/ready"), "the second Prometheus is ready")
    place.scraped("prometheus", number, "prometheus")
    return made


def alertmanager(place: Place, number: int) -> None:
    folder = place.folder / "alertmanager"
    folder.mkdir()
    (folder / "alertmanager.yml").write_text((place.watch.folder / "alertmanager.yml").read_text())
    argv = alertmanager_command(folder, number)
    place.stack.enter_context(running("alertmanager", argv, folder))


@drill("CorelaneTargetDown", how="a Prometheus is paused with SIGSTOP, then resumed")
def prometheus_stopped(place: Place) -> Iterator[Labels]:
    watcher = prometheus(place)
    place.begins()
    watcher.process.signal(signal.SIGSTOP)
    yield {"service": "prometheus", "pod": "prometheus"}
    watcher.process.signal(signal.SIGCONT)


@drill(
    "CorelaneNotificationsFail",
    how="Prometheus runs without Alertmanager, then Alertmanager starts",
)
def notifications_fail(place: Place) -> Iterator[Labels]:
    to = port()
    # The missing replica triggers an alert, which Prometheus must send.
    prometheus(place, alertmanager=to, absent=port())
    place.begins()
    yield {"service": "prometheus", "pod": "prometheus"}
    alertmanager(place, to)


@drill(
    "CorelaneTargetsGone/warning",
    how="discovery loses the replicas, then finds them again",
)
def targets_gone(place: Place) -> Iterator[Labels]:
    server = place.server()
    wait_for_history(place, "service")
    place.begins()
    place.watch.remove(place.namespace)
    yield {"job": "service", "service": "server"}
    place.watch.add("service", server.admin_port, namespace=place.namespace, pod=server.name)


@drill(
    "CorelaneTargetsGone/critical",
    how="discovery loses the gateways, then finds them again",
)
def gateways_gone(place: Place) -> Iterator[Labels]:
    gateway = place.gateway(place.server())
    wait_for_history(place, "gateway")
    place.begins()
    place.watch.remove(place.namespace)
    yield {"job": "gateway", "service": "gateway"}
    place.watch.add("gateway", port_of(gateway.stats), namespace=place.namespace, pod="gateway")


@drill(
    "CorelaneRulesFail",
    how="a Prometheus federates another one's records, which duplicates the objectives, then the federation is removed",
)
def rules_fail(place: Place) -> Iterator[Labels]:
    server = place.server()
    gateway = place.gateway(server)
    with place.load(gateway.url, rate=20, clients=1):
        watcher = prometheus(place)
        place.begins()
        watcher.federate(place.watch.prometheus)
        yield {"service": "prometheus", "pod": "prometheus"}
        watcher.federate("")
