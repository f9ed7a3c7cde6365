"""The levers: one change of the shipped configuration each, in either direction."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Proxy
from loadtests.bench.gateway.shipped import connection_manager, log_of_all

Config = dict
TYPE = "type.googleapis.com/envoy."


@dataclass(frozen=True)
class Lever:
    """A change, and what it is in Envoy's words."""

    name: str
    setting: str
    change: Callable[[Config], object]
    arguments: tuple[str, ...] = ()

    def applied(self, rendered: Config) -> Proxy:
        """The shipped configuration with the change."""
        config = copy.deepcopy(rendered)
        self.change(config)
        return proxies.envoy(self.name, config, self.arguments)


def _listener(config: Config) -> dict:
    listeners = config["static_resources"]["listeners"]
    return next(listener for listener in listeners if listener["name"] == "ingress")


def _cluster(config: Config) -> dict:
    clusters = config["static_resources"]["clusters"]
    return next(cluster for cluster in clusters if cluster["name"] == "server")


def _protocol(config: Config) -> dict:
    options = _cluster(config)["typed_extension_protocol_options"]
    return options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]


def _router(config: Config) -> dict:
    return connection_manager(config)["http_filters"][-1]["typed_config"]


def _routes(config: Config) -> list[dict]:
    return connection_manager(config)["route_config"]["virtual_hosts"][0]["routes"]


def _manager(**fields: object) -> Callable[[Config], object]:
    return lambda config: connection_manager(config).update(fields)


def _on_listener(**fields: object) -> Callable[[Config], object]:
    return lambda config: _listener(config).update(fields)


def _on_cluster(**fields: object) -> Callable[[Config], object]:
    return lambda config: _cluster(config).update(fields)


def _top(**fields: object) -> Callable[[Config], object]:
    return lambda config: config.update(fields)


def _without(name: str) -> Callable[[Config], object]:
    return lambda config: connection_manager(config).pop(name, None)


def _cluster_without(*names: str) -> Callable[[Config], object]:
    return lambda config: [_cluster(config).pop(name, None) for name in names]


def _one_route(config: Config) -> None:
    _routes(config)[:-1] = []


def _exact_methods(config: Config) -> None:
    """A route for each method, compared as text, for the one with a regular expression."""
    first, *others = _routes(config)
    methods = first["match"]["headers"][0]["string_match"]["safe_regex"]["regex"].split("|")
    routes = []
    for method in methods:
        route = copy.deepcopy(first)
        route["match"]["headers"][0]["string_match"] = {"exact": method}
        routes.append(route)
    _routes(config)[:] = [*routes, *others]


def _not_methods(config: Config) -> None:
    """First the route of requests whose method is none of those: one comparison sends a GET on."""
    first, *others = _routes(config)
    methods = first["match"]["headers"][0]["string_match"]["safe_regex"]["regex"].split("|")
    once = copy.deepcopy(others[-1])
    once["match"]["headers"] = [
        {"name": ":method", "string_match": {"exact": method}, "invert_match": True}
        for method in methods
    ]
    del first["match"]["headers"]
    _routes(config)[:] = [once, first]


def _once_first(config: Config) -> None:
    """POST and PATCH first, whatever else is idempotent."""
    first, *others = _routes(config)
    once = copy.deepcopy(others[-1])
    once["match"]["headers"] = [{"name": ":method", "string_match": {"exact": "POST"}}]
    del first["match"]["headers"]
    _routes(config)[:] = [once, first]


def _no_retries(config: Config) -> None:
    for route in _routes(config):
        route["route"].pop("retry_policy", None)


def _no_host_predicate(config: Config) -> None:
    for route in _routes(config):
        route["route"].get("retry_policy", {}).pop("retry_host_predicate", None)


def _no_route_timeout(config: Config) -> None:
    for route in _routes(config):
        route["route"]["timeout"] = "0s"


def _no_timers(config: Config) -> None:
    zero = {"stream_idle_timeout": "0s", "request_timeout": "0s", "request_headers_timeout": "0s"}
    connection_manager(config).update(zero)
    options = connection_manager(config)["common_http_protocol_options"]
    options["idle_timeout"] = "0s"
    options.pop("max_stream_duration", None)
    _no_route_timeout(config)


def _no_pool_idle_timer(config: Config) -> None:
    _protocol(config)["common_http_protocol_options"]["idle_timeout"] = "0s"


def _no_client_idle_timer(config: Config) -> None:
    connection_manager(config)["common_http_protocol_options"]["idle_timeout"] = "0s"


def _router_setting(**fields: object) -> Callable[[Config], object]:
    return lambda config: _router(config).update(fields)


def _router_only(config: Config) -> None:
    connection_manager(config)["http_filters"][:-1] = []


def _keep_load_reports(config: Config) -> None:
    connection_manager(config)["route_config"].pop("response_headers_to_remove", None)


def _budget(config: Config) -> None:
    for threshold in _cluster(config)["circuit_breakers"]["thresholds"]:
        threshold.pop("retry_budget", None)


def _plain_form(config: Config) -> None:
    for name in ("normalize_path", "merge_slashes", "path_with_escaped_slashes_action"):
        connection_manager(config).pop(name, None)


def _underscores(config: Config) -> None:
    options = connection_manager(config)["common_http_protocol_options"]
    options.pop("headers_with_underscores_action", None)


def _whole_prefixes(config: Config) -> None:
    """Prefixes that Envoy compares as numbers, element by element; others it compares as text."""
    patterns = config["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"]
    whole = dict.fromkeys(pattern["prefix"].rpartition(".")[0] + "." for pattern in patterns)
    patterns[:] = [{"prefix": prefix} for prefix in whole]


def _no_stream_deadline(config: Config) -> None:
    connection_manager(config)["common_http_protocol_options"].pop("max_stream_duration", None)


def _log_everything(config: Config) -> None:
    connection_manager(config)["access_log"] = log_of_all(config)


def _policy(name: str, **fields: object) -> Callable[[Config], object]:
    kind = "".join(map(str.capitalize, name.split("_")))
    typed = {"@type": f"{TYPE}extensions.load_balancing_policies.{name}.v3.{kind}", **fields}
    extension = {"name": f"envoy.load_balancing_policies.{name}", "typed_config": typed}
    return _on_cluster(load_balancing_policy={"policies": [{"typed_extension_config": extension}]})


def _requests_per_connection(count: int) -> Callable[[Config], object]:
    def change(config: Config) -> None:
        options = _protocol(config)["common_http_protocol_options"]
        options["max_requests_per_connection"] = count

    return change


def _http2_to_replicas(config: Config) -> None:
    _protocol(config)["explicit_http_config"] = {"http2_protocol_options": {}}


def _busy_poll(config: Config) -> None:
    # SOL_SOCKET, SO_BUSY_POLL (asm-generic/socket.h).
    option = {"level": 1, "name": 46, "int_value": 50, "state": "STATE_PREBIND"}
    _listener(config)["socket_options"] = [option]


def _quick_ack(config: Config) -> None:
    # IPPROTO_TCP, TCP_QUICKACK (linux/tcp.h).
    option = {"level": 6, "name": 12, "int_value": 1, "state": "STATE_PREBIND"}
    _listener(config)["socket_options"] = [option]
    _cluster(config)["upstream_bind_config"] = {"socket_options": [option]}


def _io_uring(config: Config) -> None:
    config.setdefault("bootstrap_extensions", [])
    interface = {"@type": f"{TYPE}extensions.network.socket_interface.v3.DefaultSocketInterface"}
    interface["io_uring_options"] = {}
    config["bootstrap_extensions"].append(
        {
            "name": "envoy.extensions.network.socket_interface.default_socket_interface",
            "typed_config": interface,
        }
    )
    config["default_socket_interface"] = (
        "envoy.extensions.network.socket_interface.default_socket_interface"
    )


def _runtime(**fields: object) -> Callable[[Config], object]:
    def change(config: Config) -> None:
        runtime = config.setdefault("layered_runtime", {"layers": []})
        runtime["layers"].insert(0, {"name": "lever", "static_layer": fields})

    return change


def _no_admin_layer(config: Config) -> None:
    config["layered_runtime"] = {"layers": [{"name": "static", "static_layer": {}}]}


REJECT_ALL = {"stats_matcher": {"reject_all": True}}
INLINE = [
    {"inline_header_type": "REQUEST_HEADER", "inline_header_name": name}
    for name in ("accept", "x-corelane")
]

NOTHING = Lever("nothing", "the same again: what noise looks like", lambda config: None)

LEVERS = [
    NOTHING,
    Lever("no request ID", "generate_request_id: false", _manager(generate_request_id=False)),
    Lever("no access log", "access_log absent", _without("access_log")),
    Lever("everything logged", "access_log without a filter", _log_everything),
    Lever("no statistics", "stats_matcher.reject_all", _top(stats_config=REJECT_ALL)),
    Lever("all statistics", "stats_config absent", lambda config: config.pop("stats_config", None)),
    Lever(
        "statistics by whole prefixes", "stats_matcher, prefixes that end in a dot", _whole_prefixes
    ),
    Lever(
        "no dynamic statistics", "router dynamic_stats: false", _router_setting(dynamic_stats=False)
    ),
    Lever(
        "deferred statistics",
        "enable_deferred_creation_stats",
        _top(deferred_stat_options={"enable_deferred_creation_stats": True}),
    ),
    Lever("flush on scrape", "stats_flush_on_admin", _top(stats_flush_on_admin=True)),
    Lever("no timers", "all time-outs of clients and routes 0s", _no_timers),
    Lever("no stream timer", "stream_idle_timeout: 0s", _manager(stream_idle_timeout="0s")),
    Lever("no stream deadline", "max_stream_duration absent", _no_stream_deadline),
    Lever("no request timer", "request_timeout: 0s", _manager(request_timeout="0s")),
    Lever("no header timer", "request_headers_timeout: 0s", _manager(request_headers_timeout="0s")),
    Lever("no route timer", "route timeout: 0s", _no_route_timeout),
    Lever("no client idle timer", "idle_timeout: 0s", _no_client_idle_timer),
    Lever("no pool idle timer", "upstream idle_timeout: 0s", _no_pool_idle_timer),
    Lever("HTTP/1 only", "codec_type: HTTP1", _manager(codec_type="HTTP1")),
    Lever("no X-Forwarded-For", "skip_xff_append", _manager(skip_xff_append=True)),
    Lever("paths as they come", "no normalize_path, merge_slashes, escaped slashes", _plain_form),
    Lever("underscores allowed", "headers_with_underscores_action absent", _underscores),
    Lever(
        "x-envoy headers",
        "suppress_envoy_headers: false",
        _router_setting(suppress_envoy_headers=False),
    ),
    Lever(
        "own server header",
        "server_header_transformation absent",
        _without("server_header_transformation"),
    ),
    Lever("load reports pass", "response_headers_to_remove absent", _keep_load_reports),
    Lever("Envoy's own replies", "local_reply_config absent", _without("local_reply_config")),
    Lever("one route", "only the last route", _one_route),
    Lever("methods as text", "a route per method, string_match.exact", _exact_methods),
    Lever("other methods first", "string_match.exact, invert_match", _not_methods),
    Lever("exceptions first", "POST first, then all others", _once_first),
    Lever("no retries", "retry_policy absent", _no_retries),
    Lever("any host again", "retry_host_predicate absent", _no_host_predicate),
    Lever("no retry budget", "retry_budget absent", _budget),
    Lever("no circuit breakers", "circuit_breakers absent", _cluster_without("circuit_breakers")),
    Lever(
        "no outlier detection", "outlier_detection absent", _cluster_without("outlier_detection")
    ),
    Lever("no health checks", "health_checks absent", _cluster_without("health_checks")),
    Lever("router alone", "no other HTTP filter", _router_only),
    Lever(
        "no overload manager",
        "overload_manager absent",
        lambda config: config.pop("overload_manager", None),
    ),
    Lever(
        "listener outside overload",
        "bypass_overload_manager, ignore_global_conn_limit",
        _on_listener(bypass_overload_manager=True, ignore_global_conn_limit=True),
    ),
    Lever("round robin", "round_robin", _policy("round_robin")),
    Lever("least of two", "least_request, two choices", _policy("least_request")),
    Lever(
        "least of all",
        "least_request, FULL_SCAN",
        _policy("least_request", selection_method="FULL_SCAN"),
    ),
    Lever("random", "random", _policy("random")),
    Lever("pinned worker", "enable_worker_cpu_affinity", _top(enable_worker_cpu_affinity=True)),
    Lever(
        "locality of CPUs",
        "enable_worker_cpu_affinity, cpu_locality_balance",
        lambda config: (
            config.update(enable_worker_cpu_affinity=True),
            _on_listener(connection_balance_config={"cpu_locality_balance": {}})(config),
        ),
    ),
    Lever(
        "exact balance",
        "exact_balance",
        _on_listener(connection_balance_config={"exact_balance": {}}),
    ),
    Lever("one socket for all", "enable_reuse_port: false", _on_listener(enable_reuse_port=False)),
    Lever("busy polling", "SO_BUSY_POLL 50", _busy_poll),
    Lever("quick acknowledgements", "TCP_QUICKACK", _quick_ack),
    Lever("io_uring", "io_uring_options", _io_uring),
    Lever(
        "connections ahead",
        "preconnect_policy 1.05",
        _on_cluster(preconnect_policy={"per_upstream_preconnect_ratio": 1.05}),
    ),
    Lever(
        "connection per client",
        "connection_pool_per_downstream_connection",
        _on_cluster(connection_pool_per_downstream_connection=True),
    ),
    Lever(
        "1000 requests a connection", "max_requests_per_connection", _requests_per_connection(1000)
    ),
    Lever("HTTP/2 to replicas", "http2_protocol_options", _http2_to_replicas),
    Lever(
        "buffers of 1 MiB",
        "per_connection_buffer_limit_bytes absent",
        lambda config: (
            _listener(config).pop("per_connection_buffer_limit_bytes", None),
            _cluster(config).pop("per_connection_buffer_limit_bytes", None),
        ),
    ),
    Lever(
        "larger CPU caches",
        "max_per_cpu_cache_size_bytes 16 MiB",
        _top(memory_allocator_manager={"max_per_cpu_cache_size_bytes": 16777216}),
    ),
    Lever("inline headers", "inline_headers of two names", _top(inline_headers=INLINE)),
    Lever("static runtime", "no admin layer", _no_admin_layer),
    Lever(
        "old HTTP/2 codec",
        "envoy.reloadable_features.http2_use_oghttp2: false",
        _runtime(**{"envoy.reloadable_features.http2_use_oghttp2": False}),
    ),
    Lever(
        "old TLS curves",
        "envoy.reloadable_features.pqc_default_ecdh_curves: false",
        _runtime(**{"envoy.reloadable_features.pqc_default_ecdh_curves": False}),
    ),
    Lever("two workers", "--concurrency 2", lambda config: None, ("--concurrency", "2")),
]
