"""Changes of the shipped configuration, of which the levers are made."""

import copy
from collections.abc import Callable

from loadtests.bench.gateway.shipped import connection_manager, log_of_all

Config = dict
Change = Callable[[Config], object]
TYPE = "type.googleapis.com/envoy."


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


def manager(**fields: object) -> Change:
    """Sets fields of the connection manager."""
    return lambda config: connection_manager(config).update(fields)


def on_listener(**fields: object) -> Change:
    """Sets fields of the listener of clients."""
    return lambda config: _listener(config).update(fields)


def on_cluster(**fields: object) -> Change:
    """Sets fields of the cluster of replicas."""
    return lambda config: _cluster(config).update(fields)


def top(**fields: object) -> Change:
    """Sets fields of the whole configuration."""
    return lambda config: config.update(fields)


def without(name: str) -> Change:
    """Removes a field of the connection manager."""
    return lambda config: connection_manager(config).pop(name, None)


def cluster_without(*names: str) -> Change:
    """Removes fields of the cluster of replicas."""
    return lambda config: [_cluster(config).pop(name, None) for name in names]


def _forwarding(config: Config) -> list[dict]:
    return [route for route in _routes(config) if "route" in route]


def _route(config: Config, name: str) -> dict:
    return next(route for route in _routes(config) if route["name"] == name)


def _methods(idempotent: dict) -> list[str]:
    (header,) = idempotent["match"]["headers"]
    return header["string_match"]["safe_regex"]["regex"].split("|")


def one_route(config: Config) -> None:
    """The last route for all methods."""
    _routes(config)[:] = [_route(config, "once")]


def one_host(config: Config) -> None:
    """Lets requests with several hosts pass."""
    _routes(config).remove(_route(config, "several-hosts"))


def exact_methods(config: Config) -> None:
    """A route for each method, compared as text, for the one with a regular expression."""
    idempotent, routes = _route(config, "idempotent"), _routes(config)
    each = []
    for method in _methods(idempotent):
        route = copy.deepcopy(idempotent)
        route["match"]["headers"][0]["string_match"] = {"exact": method}
        each.append(route)
    place = routes.index(idempotent)
    routes[place : place + 1] = each


def not_methods(config: Config) -> None:
    """First the route of requests whose method is none of those: one comparison sends a GET on."""
    methods = _methods(_route(config, "idempotent"))
    _once_before(
        config,
        [
            {"name": ":method", "string_match": {"exact": method}, "invert_match": True}
            for method in methods
        ],
    )


def once_first(config: Config) -> None:
    """POST first, as if whatever else is idempotent."""
    _once_before(config, [{"name": ":method", "string_match": {"exact": "POST"}}])


def _once_before(config: Config, headers: list[dict]) -> None:
    idempotent, once, routes = _route(config, "idempotent"), _route(config, "once"), _routes(config)
    once["match"]["headers"] = headers
    del idempotent["match"]["headers"]
    routes.remove(once)
    routes.remove(idempotent)
    routes += [once, idempotent]


def no_retries(config: Config) -> None:
    """Sends nothing twice."""
    for route in _forwarding(config):
        route["route"].pop("retry_policy", None)


def no_host_predicate(config: Config) -> None:
    """Retries on any replica."""
    for route in _forwarding(config):
        route["route"].get("retry_policy", {}).pop("retry_host_predicate", None)


def no_route_timeout(config: Config) -> None:
    """Waits for replicas for ever."""
    for route in _forwarding(config):
        route["route"]["timeout"] = "0s"


def no_timers(config: Config) -> None:
    """Waits for clients and replicas for ever."""
    zero = {"stream_idle_timeout": "0s", "request_timeout": "0s", "request_headers_timeout": "0s"}
    connection_manager(config).update(zero)
    options = connection_manager(config)["common_http_protocol_options"]
    options["idle_timeout"] = "0s"
    options.pop("max_stream_duration", None)
    no_route_timeout(config)


def no_pool_idle_timer(config: Config) -> None:
    """Keeps silent connections to replicas."""
    _protocol(config)["common_http_protocol_options"]["idle_timeout"] = "0s"


def no_client_idle_timer(config: Config) -> None:
    """Keeps silent connections of clients."""
    connection_manager(config)["common_http_protocol_options"]["idle_timeout"] = "0s"


def router_setting(**fields: object) -> Change:
    """Sets fields of the router filter."""
    return lambda config: _router(config).update(fields)


def router_only(config: Config) -> None:
    """No other HTTP filter."""
    connection_manager(config)["http_filters"][:-1] = []


def keep_load_reports(config: Config) -> None:
    """Shows the load reports to clients."""
    connection_manager(config)["route_config"].pop("response_headers_to_remove", None)


def budget(config: Config) -> None:
    """Retries without a budget."""
    for threshold in _cluster(config)["circuit_breakers"]["thresholds"]:
        threshold.pop("retry_budget", None)


def plain_form(config: Config) -> None:
    """Takes paths as they come."""
    for name in ("normalize_path", "merge_slashes", "path_with_escaped_slashes_action"):
        connection_manager(config).pop(name, None)


def underscores(config: Config) -> None:
    """Takes header names with underscores."""
    options = connection_manager(config)["common_http_protocol_options"]
    options.pop("headers_with_underscores_action", None)


def whole_prefixes(config: Config) -> None:
    """Prefixes that Envoy compares as numbers, element by element; others it compares as text."""
    patterns = config["stats_config"]["stats_matcher"]["inclusion_list"]["patterns"]
    whole = dict.fromkeys(pattern["prefix"].rpartition(".")[0] + "." for pattern in patterns)
    patterns[:] = [{"prefix": prefix} for prefix in whole]


def no_stream_deadline(config: Config) -> None:
    """Lets a request and its reply take for ever."""
    connection_manager(config)["common_http_protocol_options"].pop("max_stream_duration", None)


def log_everything(config: Config) -> None:
    """A line of log for each request."""
    connection_manager(config)["access_log"] = log_of_all(config)


def policy(name: str, **fields: object) -> Change:
    """Another balancing policy."""
    kind = "".join(map(str.capitalize, name.split("_")))
    typed = {"@type": f"{TYPE}extensions.load_balancing_policies.{name}.v3.{kind}", **fields}
    extension = {"name": f"envoy.load_balancing_policies.{name}", "typed_config": typed}
    return on_cluster(load_balancing_policy={"policies": [{"typed_extension_config": extension}]})


def requests_per_connection(count: int) -> Change:
    """Closes a connection to a replica after so many requests."""

    def change(config: Config) -> None:
        options = _protocol(config)["common_http_protocol_options"]
        options["max_requests_per_connection"] = count

    return change


def http2_to_replicas(config: Config) -> None:
    """Multiplexes requests to replicas."""
    _protocol(config)["explicit_http_config"] = {"http2_protocol_options": {}}


def busy_poll(config: Config) -> None:
    """Polls the network card while waiting."""
    # SOL_SOCKET, SO_BUSY_POLL (asm-generic/socket.h).
    option = {"level": 1, "name": 46, "int_value": 50, "state": "STATE_PREBIND"}
    _listener(config)["socket_options"] = [option]


def quick_ack(config: Config) -> None:
    """Acknowledges at once."""
    # IPPROTO_TCP, TCP_QUICKACK (linux/tcp.h).
    option = {"level": 6, "name": 12, "int_value": 1, "state": "STATE_PREBIND"}
    _listener(config)["socket_options"] = [option]
    _cluster(config)["upstream_bind_config"] = {"socket_options": [option]}


def defer_accept(config: Config) -> None:
    """Wakes up for a new connection once its first bytes are there."""
    # IPPROTO_TCP, TCP_DEFER_ACCEPT (linux/tcp.h), seconds.
    option = {"level": 6, "name": 9, "int_value": 5, "state": "STATE_LISTENING"}
    _listener(config)["socket_options"] = [option]


def io_uring(**options: object) -> Change:
    """Reads and writes through io_uring."""
    name = "envoy.extensions.network.socket_interface.default_socket_interface"
    kind = f"{TYPE}extensions.network.socket_interface.v3.DefaultSocketInterface"

    def change(config: Config) -> None:
        interface = {"@type": kind, "io_uring_options": options}
        config.setdefault("bootstrap_extensions", []).append(
            {"name": name, "typed_config": interface}
        )
        config["default_socket_interface"] = name

    return change


def few_buckets(config: Config) -> None:
    """Histograms with three buckets instead of Envoy's nineteen."""
    config["stats_config"]["histogram_bucket_settings"] = [
        {"match": {"prefix": prefix}, "buckets": [1, 100, 10000]}
        for prefix in ("cluster.", "http.")
    ]


def runtime(**fields: object) -> Change:
    """Sets runtime keys."""

    def change(config: Config) -> None:
        runtime = config.setdefault("layered_runtime", {"layers": []})
        runtime["layers"].insert(0, {"name": "lever", "static_layer": fields})

    return change


def no_admin_layer(config: Config) -> None:
    """A runtime that the admin interface cannot change."""
    config["layered_runtime"] = {"layers": [{"name": "static", "static_layer": {}}]}


def default_buffers(config: Config) -> None:
    """Envoy's own limit of what a connection buffers."""
    for part in (_listener(config), _cluster(config)):
        part.pop("per_connection_buffer_limit_bytes", None)
