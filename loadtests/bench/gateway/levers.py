"""The levers: one change of the shipped configuration each, in either direction."""

import copy
from dataclasses import dataclass

from loadtests.bench.gateway import changes, proxies
from loadtests.bench.gateway.changes import Change, Config
from loadtests.bench.gateway.proxies import Proxy


@dataclass(frozen=True)
class Lever:
    """A change, and what it is in Envoy's words."""

    name: str
    setting: str
    change: Change
    arguments: tuple[str, ...] = ()

    def applied(self, rendered: Config) -> Proxy:
        """The shipped configuration with the change."""
        config = copy.deepcopy(rendered)
        self.change(config)
        return proxies.envoy(self.name, config, self.arguments)


REJECT_ALL = {"stats_matcher": {"reject_all": True}}
INLINE = [
    {"inline_header_type": "REQUEST_HEADER", "inline_header_name": name}
    for name in ("accept", "x-corelane")
]

NOTHING = Lever("nothing", "the same again: what noise looks like", lambda config: None)

LEVERS = [
    NOTHING,
    Lever(
        "no request ID", "generate_request_id: false", changes.manager(generate_request_id=False)
    ),
    Lever("no access log", "access_log absent", changes.without("access_log")),
    Lever("everything logged", "access_log without a filter", changes.log_everything),
    Lever("no statistics", "stats_matcher.reject_all", changes.top(stats_config=REJECT_ALL)),
    Lever("all statistics", "stats_config absent", lambda config: config.pop("stats_config", None)),
    Lever(
        "statistics by whole prefixes",
        "stats_matcher, prefixes that end in a dot",
        changes.whole_prefixes,
    ),
    Lever(
        "no dynamic statistics",
        "router dynamic_stats: false",
        changes.router_setting(dynamic_stats=False),
    ),
    Lever(
        "deferred statistics",
        "enable_deferred_creation_stats",
        changes.top(deferred_stat_options={"enable_deferred_creation_stats": True}),
    ),
    Lever("flush on scrape", "stats_flush_on_admin", changes.top(stats_flush_on_admin=True)),
    Lever("no timers", "all time-outs of clients and routes 0s", changes.no_timers),
    Lever("no stream timer", "stream_idle_timeout: 0s", changes.manager(stream_idle_timeout="0s")),
    Lever("no stream deadline", "max_stream_duration absent", changes.no_stream_deadline),
    Lever("no request timer", "request_timeout: 0s", changes.manager(request_timeout="0s")),
    Lever(
        "no header timer",
        "request_headers_timeout: 0s",
        changes.manager(request_headers_timeout="0s"),
    ),
    Lever("no route timer", "route timeout: 0s", changes.no_route_timeout),
    Lever("no client idle timer", "idle_timeout: 0s", changes.no_client_idle_timer),
    Lever("no pool idle timer", "upstream idle_timeout: 0s", changes.no_pool_idle_timer),
    Lever("HTTP/1 only", "codec_type: HTTP1", changes.manager(codec_type="HTTP1")),
    Lever("no X-Forwarded-For", "skip_xff_append", changes.manager(skip_xff_append=True)),
    Lever(
        "paths as they come",
        "no normalize_path, merge_slashes, escaped slashes",
        changes.plain_form,
    ),
    Lever("no normal paths", "normalize_path absent", changes.without("normalize_path")),
    Lever("slashes not merged", "merge_slashes absent", changes.without("merge_slashes")),
    Lever(
        "escaped slashes pass",
        "path_with_escaped_slashes_action absent",
        changes.without("path_with_escaped_slashes_action"),
    ),
    Lever("underscores allowed", "headers_with_underscores_action absent", changes.underscores),
    Lever(
        "x-envoy headers",
        "suppress_envoy_headers: false",
        changes.router_setting(suppress_envoy_headers=False),
    ),
    Lever(
        "own server header",
        "server_header_transformation absent",
        changes.without("server_header_transformation"),
    ),
    Lever("load reports pass", "response_headers_to_remove absent", changes.keep_load_reports),
    Lever(
        "Envoy's own replies", "local_reply_config absent", changes.without("local_reply_config")
    ),
    Lever("one route", "only the last route", changes.one_route),
    Lever("several hosts pass", "the first route absent", changes.one_host),
    Lever("methods as text", "a route per method, string_match.exact", changes.exact_methods),
    Lever("other methods first", "string_match.exact, invert_match", changes.not_methods),
    Lever("exceptions first", "POST first, then all others", changes.once_first),
    Lever("no retries", "retry_policy absent", changes.no_retries),
    Lever("any host again", "retry_host_predicate absent", changes.no_host_predicate),
    Lever("no retry budget", "retry_budget absent", changes.budget),
    Lever(
        "no circuit breakers",
        "circuit_breakers absent",
        changes.cluster_without("circuit_breakers"),
    ),
    Lever(
        "no outlier detection",
        "outlier_detection absent",
        changes.cluster_without("outlier_detection"),
    ),
    Lever("no health checks", "health_checks absent", changes.cluster_without("health_checks")),
    Lever("router alone", "no other HTTP filter", changes.router_only),
    Lever(
        "no overload manager",
        "overload_manager absent",
        lambda config: config.pop("overload_manager", None),
    ),
    Lever(
        "listener outside overload",
        "bypass_overload_manager, ignore_global_conn_limit",
        changes.on_listener(bypass_overload_manager=True, ignore_global_conn_limit=True),
    ),
    Lever("round robin", "round_robin", changes.policy("round_robin")),
    Lever("least of two", "least_request, two choices", changes.policy("least_request")),
    Lever(
        "least of all",
        "least_request, FULL_SCAN",
        changes.policy("least_request", selection_method="FULL_SCAN"),
    ),
    Lever("random", "random", changes.policy("random")),
    Lever(
        "pinned worker", "enable_worker_cpu_affinity", changes.top(enable_worker_cpu_affinity=True)
    ),
    Lever(
        "locality of CPUs",
        "enable_worker_cpu_affinity, cpu_locality_balance",
        lambda config: (
            config.update(enable_worker_cpu_affinity=True),
            changes.on_listener(connection_balance_config={"cpu_locality_balance": {}})(config),
        ),
    ),
    Lever(
        "exact balance",
        "exact_balance",
        changes.on_listener(connection_balance_config={"exact_balance": {}}),
    ),
    Lever(
        "one socket for all",
        "enable_reuse_port: false",
        changes.on_listener(enable_reuse_port=False),
    ),
    Lever("busy polling", "SO_BUSY_POLL 50", changes.busy_poll),
    Lever("quick acknowledgements", "TCP_QUICKACK", changes.quick_ack),
    Lever("deferred accept", "TCP_DEFER_ACCEPT", changes.defer_accept),
    Lever(
        "fast open",
        "tcp_fast_open_queue_length 1024",
        changes.on_listener(tcp_fast_open_queue_length=1024),
    ),
    Lever(
        "one connection per wake-up",
        "max_connections_to_accept_per_socket_event 1",
        changes.on_listener(max_connections_to_accept_per_socket_event=1),
    ),
    Lever("short accept queue", "tcp_backlog_size 128", changes.on_listener(tcp_backlog_size=128)),
    Lever("io_uring", "io_uring_options", changes.io_uring()),
    Lever(
        "polled io_uring",
        "io_uring_options.enable_submission_queue_polling",
        changes.io_uring(enable_submission_queue_polling=True),
    ),
    Lever(
        "connections ahead",
        "preconnect_policy 1.05",
        changes.on_cluster(preconnect_policy={"per_upstream_preconnect_ratio": 1.05}),
    ),
    Lever(
        "connection per client",
        "connection_pool_per_downstream_connection",
        changes.on_cluster(connection_pool_per_downstream_connection=True),
    ),
    Lever(
        "1000 requests a connection",
        "max_requests_per_connection",
        changes.requests_per_connection(1000),
    ),
    Lever("HTTP/2 to replicas", "http2_protocol_options", changes.http2_to_replicas),
    Lever("buffers of 1 MiB", "per_connection_buffer_limit_bytes absent", changes.default_buffers),
    Lever(
        "larger CPU caches",
        "max_per_cpu_cache_size_bytes 16 MiB",
        changes.top(memory_allocator_manager={"max_per_cpu_cache_size_bytes": 16777216}),
    ),
    Lever(
        "memory given back",
        "soft_memory_limit_bytes 256 MiB",
        changes.top(memory_allocator_manager={"soft_memory_limit_bytes": 268435456}),
    ),
    Lever("fewer buckets", "histogram_bucket_settings", changes.few_buckets),
    Lever(
        "statistics that expire",
        "stats_eviction_interval 60s",
        changes.top(stats_eviction_interval="60s"),
    ),
    Lever("inline headers", "inline_headers of two names", changes.top(inline_headers=INLINE)),
    Lever("static runtime", "no admin layer", changes.no_admin_layer),
    Lever(
        "old HTTP/2 codec",
        "envoy.reloadable_features.http2_use_oghttp2: false",
        changes.runtime(**{"envoy.reloadable_features.http2_use_oghttp2": False}),
    ),
    Lever(
        "old TLS curves",
        "envoy.reloadable_features.pqc_default_ecdh_curves: false",
        changes.runtime(**{"envoy.reloadable_features.pqc_default_ecdh_curves": False}),
    ),
    Lever("two workers", "--concurrency 2", lambda config: None, ("--concurrency", "2")),
    Lever("threads of the cpuset", "--cpuset-threads", lambda config: None, ("--cpuset-threads",)),
]
