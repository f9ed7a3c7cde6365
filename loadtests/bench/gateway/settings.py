"""Single changes of the shipped configuration, in either direction."""

import copy
import json
from collections.abc import Iterator

from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Proxy
from loadtests.bench.gateway.shipped import connection_manager, log_of_all

ABSENT = None
"""Removes a field."""

FULL_LOG = "the log, of every request"

TYPE = "type.googleapis.com/envoy.extensions.load_balancing_policies"


def _policy(name: str, **fields: object) -> dict:
    """A balancing policy."""
    kind = "".join(map(str.capitalize, name.split("_")))
    typed = {"@type": f"{TYPE}.{name}.v3.{kind}", **fields}
    extension = {"name": f"envoy.load_balancing_policies.{name}", "typed_config": typed}
    return {"policies": [{"typed_extension_config": extension}]}


NOTHING = "nothing"

SETTINGS: dict[str, dict[str, object]] = {
    NOTHING: {},
    "no request ID": {"manager.generate_request_id": False},
    "no access log": {"manager.access_log": ABSENT},
    "everything logged": {"manager.access_log": FULL_LOG},
    "no statistics": {"stats_config": {"stats_matcher": {"reject_all": True}}},
    "all statistics": {"stats_config": ABSENT},
    "no dynamic statistics": {"router.dynamic_stats": False},
    "no timers": {
        **{
            f"manager.{name}": "0s"
            for name in ("stream_idle_timeout", "request_timeout", "request_headers_timeout")
        },
        "clients.idle_timeout": "0s",
        "clients.max_stream_duration": ABSENT,
        "routes.timeout": "0s",
    },
    "no stream timer": {"manager.stream_idle_timeout": "0s"},
    "no stream deadline": {"clients.max_stream_duration": ABSENT},
    "no route timer": {"routes.timeout": "0s"},
    "HTTP/1 only": {"manager.codec_type": "HTTP1"},
    "no X-Forwarded-For": {"manager.skip_xff_append": True},
    "paths as they come": {
        "manager.normalize_path": ABSENT,
        "manager.merge_slashes": ABSENT,
        "manager.path_with_escaped_slashes_action": ABSENT,
    },
    "underscores allowed": {"clients.headers_with_underscores_action": ABSENT},
    "x-envoy headers": {"router.suppress_envoy_headers": False},
    "Envoy's own replies": {"manager.local_reply_config": ABSENT},
    "no retries": {"routes.retry_policy": ABSENT},
    "no circuit breakers": {"cluster.circuit_breakers": ABSENT},
    "no outlier detection": {"cluster.outlier_detection": ABSENT},
    "no health checks": {"cluster.health_checks": ABSENT},
    "no overload manager": {"overload_manager": ABSENT},
    "round robin": {"cluster.load_balancing_policy": _policy("round_robin")},
    "least of two": {"cluster.load_balancing_policy": _policy("least_request")},
    "least of all": {
        "cluster.load_balancing_policy": _policy("least_request", selection_method="FULL_SCAN")
    },
    "random": {"cluster.load_balancing_policy": _policy("random")},
    "pinned worker": {"enable_worker_cpu_affinity": True},
    "HTTP/2 to replicas": {"replicas.explicit_http_config": {"http2_protocol_options": {}}},
    "1000 requests a connection": {
        "replicas.common_http_protocol_options.max_requests_per_connection": 1000
    },
}
"""By name: fields and their values."""


def described(name: str) -> str:
    """A change in Envoy's words."""
    told = []
    for path, value in SETTINGS[name].items():
        field = path.rpartition(".")[2]
        if isinstance(value, dict) and "policies" in value:
            typed = value["policies"][0]["typed_extension_config"]
            value = typed["name"].rpartition(".")[2]
        shown = value if isinstance(value, str) else json.dumps(value)
        told.append(f"{field} absent" if value is ABSENT else f"{field}: {shown}")
    return ", ".join(told) or "the same again: what noise looks like"


def applied(name: str, rendered: dict) -> Proxy:
    """The shipped configuration with the change."""
    config = copy.deepcopy(rendered)
    for path, value in SETTINGS[name].items():
        root, _, rest = path.rpartition(".")
        for target in _targets(config, root):
            if value is ABSENT:
                target.pop(rest, None)
            else:
                target[rest] = log_of_all(config) if value is FULL_LOG else copy.deepcopy(value)
    return proxies.envoy(name, config)


def _targets(config: dict, root: str) -> Iterator[dict]:
    """What the first part of a path means."""
    first, _, more = root.partition(".")
    manager = connection_manager(config)
    (cluster,) = (c for c in config["static_resources"]["clusters"] if c["name"] == "server")
    options = cluster["typed_extension_protocol_options"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    found = {
        "": [config],
        "manager": [manager],
        "clients": [manager["common_http_protocol_options"]],
        "router": [manager["http_filters"][-1]["typed_config"]],
        "routes": [route["route"] for route in routes if "route" in route],
        "cluster": [cluster],
        "replicas": [options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]],
    }[first]
    yield from (target[more] if more else target for target in found)
