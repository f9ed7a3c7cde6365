"""Causes: an autoscaler at its limit, without metrics, or unable to decide.

No controller is running, so the drill writes the status, and kube-state-metrics exposes it.
"""

import itertools
from collections.abc import Callable, Iterator

from dashboards.drill.drills import Labels, drill
from dashboards.drill.place import Place

MOST = 5

Report = Callable[..., None]


def _autoscaler(place: Place) -> Report:
    """Yields a function that changes the autoscaler's status, which kube-state-metrics exposes."""
    api, namespace = place.platform.cluster.api, place.namespace
    objects = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "server"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": MOST}
    api.create(objects, {"metadata": {"name": "server"}, "spec": spec})
    place.stack.callback(api.call, "DELETE", f"{objects}/server")

    def report(desired: int, **conditions: bool) -> None:
        told = {"ScalingActive": True, "ScalingLimited": False, **conditions}
        status = {
            "currentReplicas": 2,
            "desiredReplicas": desired,
            "conditions": [{"type": name, "status": str(is_so)} for name, is_so in told.items()],
        }
        api.change(f"{objects}/server/status", {"status": status})

    report(2)
    place.shown("horizontalpodautoscalers")
    series = f'service:corelane_autoscaler_desired:count{{namespace="{namespace}"}} == 2'
    place.until(lambda: place.watch.query(series), "the autoscaler is recorded")
    place.begins()
    return report


@drill(
    "CorelaneAutoscalerAtLimit",
    how="an autoscaler reports that its maximum limits it, then falls below the maximum",
    whole=True,
)
def autoscaler_at_limit(place: Place) -> Iterator[Labels]:
    report = _autoscaler(place)
    report(MOST, ScalingLimited=True)
    yield {"service": "server"}
    report(2)


@drill(
    "CorelaneAutoscalerOscillating",
    how="an autoscaler alternates between more and fewer replicas, then keeps their number",
    # Length of the rule's window. After this time, the window contains no changes.
    resolves=300,
    whole=True,
)
def autoscaler_undecided(place: Place) -> Iterator[Labels]:
    report = _autoscaler(place)
    wanted = itertools.cycle((3, 2))
    with place.again(lambda: report(next(wanted)), pause=6.0):
        yield {"service": "server"}
    report(2)


@drill(
    "CorelaneAutoscalerBlind",
    how="an autoscaler reports that it has no metrics, then that it has metrics again",
    whole=True,
)
def autoscaler_blind(place: Place) -> Iterator[Labels]:
    report = _autoscaler(place)
    report(2, ScalingActive=False)
    yield {"service": "server"}
    report(2)
