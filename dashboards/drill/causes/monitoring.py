"""Monitoring that is down, cannot evaluate rules, or cannot notify."""

import signal
from collections.abc import Iterator

from dashboards.drill import watchers
from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place


@drill("CorelaneTargetDown", how="SIGSTOP of a Prometheus; SIGCONT")
def prometheus_stopped(place: Place) -> Iterator[Labels]:
    watcher = watchers.prometheus(place)
    place.begins()
    watcher.process.send_signal(signal.SIGSTOP)
    yield {"service": "prometheus", "pod": "prometheus"}
    watcher.process.send_signal(signal.SIGCONT)


@drill(
    "CorelaneNotificationsFail",
    how="the Alertmanager of a Prometheus does not run; started",
)
def notifications_fail(place: Place) -> Iterator[Labels]:
    port = watchers.port()
    # A missing replica: an alert that it has to send.
    watchers.prometheus(place, alertmanager=port, absent=watchers.port())
    place.begins()
    yield {"service": "prometheus", "pod": "prometheus"}
    watchers.alertmanager(place, port)


@drill(
    "CorelaneTargetsGone/warning",
    how="discovery no longer finds the replicas; found again",
)
def targets_gone(place: Place) -> Iterator[Labels]:
    server = place.server()
    watchers.wait_for_history(place, "service")
    place.begins()
    place.watch.remove(place.namespace)
    yield {"job": "service", "service": "server"}
    place.watch.add(
        "service", server.replica.admin_port, namespace=place.namespace, pod=server.name
    )


@drill(
    "CorelaneTargetsGone/critical",
    how="discovery no longer finds the gateways; found again",
)
def gateways_gone(place: Place) -> Iterator[Labels]:
    gateway = place.gateway(place.server())
    watchers.wait_for_history(place, "gateway")
    place.begins()
    place.watch.remove(place.namespace)
    yield {"job": "gateway", "service": "gateway"}
    place.watch.add(
        "gateway", watchers.port_of(gateway.stats), namespace=place.namespace, pod="gateway"
    )


@drill(
    "CorelaneRulesFail",
    how="a Prometheus federates the records of another one, so that objectives exist twice; "
    "the federation ends",
)
def rules_fail(place: Place) -> Iterator[Labels]:
    server = place.server()
    gateway = place.gateway(server)
    with place.load(gateway.url, rate=20, clients=1):
        watcher = watchers.prometheus(place)
        place.begins()
        watcher.federate(place.watch.prometheus)
        yield {"service": "prometheus", "pod": "prometheus"}
        watcher.federate("")
