{{/*
The replicas: how they are balanced, judged and limited. How they are found is in _discovery.tpl.
*/}}
{{- define "gateway.envoy.upstream" -}}
{{- $clusters := list -}}
{{- range $service := include "gateway.services" . | fromJson -}}
{{- $clusters = append $clusters (include "gateway.envoy.cluster" (dict "root" $ "service" $service)) -}}
{{- end -}}
{{- join "\n" $clusters -}}
{{- end -}}

{{/* Takes the root context and a service. */}}
{{- define "gateway.envoy.cluster" -}}
{{- $both := . -}}
{{- with .root -}}
- name: {{ $both.service.cluster }}
  {{- include (printf "gateway.envoy.discovery.%s" (include "gateway.discovery" .)) $both | nindent 2 }}
  {{- include "gateway.envoy.balancing" $both | nindent 2 }}
  connect_timeout: {{ include "gateway.duration" (list . "upstream.connectTimeout") }}
  per_connection_buffer_limit_bytes: {{ int .Values.upstream.bufferBytes }}
  {{- if .Values.upstream.keepalive.probes }}
  upstream_connection_options:
    tcp_keepalive:
      keepalive_time: {{ include "common.seconds" (list . "upstream.keepalive.after") }}
      keepalive_interval: {{ include "common.seconds" (list . "upstream.keepalive.interval") }}
      keepalive_probes: {{ int .Values.upstream.keepalive.probes }}
  {{- end }}
  {{- with include "common.milliseconds" (list . "upstream.keepalive.unacknowledged") | int64 }}
  upstream_bind_config:
    socket_options:
    # TCP_USER_TIMEOUT of IPPROTO_TCP. Without it, the kernel sends a request to a lost node again for 15 minutes,
    # and keepalive does not probe meanwhile (tcp(7)).
    - {level: 6, name: 18, int_value: {{ . }}, state: STATE_PREBIND, description: TCP_USER_TIMEOUT}
  {{- end }}
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      common_http_protocol_options:
        # Shorter than the server's timeouts.idle: the side that sends next must be the one that closes.
        idle_timeout: {{ include "gateway.duration" (list . "upstream.idleTimeout") }}
        # A reply beyond these is a reset for Envoy, and so retried.
        max_headers_count: {{ int .Values.upstream.headers.count }}
        max_response_headers_kb: {{ int .Values.upstream.headers.kib }}
      {{- include "gateway.envoy.protocol" (list . $both.service.protocol) | nindent 6 }}
      {{- include "gateway.envoy.failures" . | nindent 6 }}
  {{- include "gateway.envoy.health" $both | nindent 2 }}
  {{- with $both.service.identity }}
  {{- include "gateway.envoy.mutual" $both | nindent 2 }}
  {{- end }}
  {{- include "gateway.envoy.limits" . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* How replicas are checked; takes the check of a service and that of the upstream. */}}
{{- define "gateway.envoy.check" -}}
{{- if hasKey (first .) "grpc" -}}
grpc_health_check: {}
{{- else if hasKey (first .) "tcp" -}}
tcp_health_check: {}
{{- else -}}
http_health_check: {path: {{ (first .).path | default (last .).path | quote }}}
{{- end -}}
{{- end -}}

{{/* Takes the root context and a service. */}}
{{- define "gateway.envoy.health" -}}
{{- $check := .service.health -}}
{{- $root := .root -}}
{{- $service := .service -}}
{{- with $root.Values.upstream.health -}}
health_checks:
- {{ include "gateway.envoy.check" (list $check .) }}
  {{- with include "gateway.envoy.checkedBy" (list $root $service) }}
  {{- . | nindent 2 }}
  {{- end }}
  interval: {{ include "gateway.duration" (list $root "upstream.health.interval") }}
  # Before the first request Envoy would check once a minute.
  no_traffic_interval: {{ include "gateway.duration" (list $root "upstream.health.interval") }}
  timeout: {{ include "gateway.duration" (list $root "upstream.health.timeout") }}
  unhealthy_threshold: {{ int .unhealthyThreshold }}
  healthy_threshold: {{ int .healthyThreshold }}
common_lb_config:
  # Tell the workers about each change at once; the default gathers changes for a second.
  update_merge_window: 0s
  healthy_panic_threshold: {value: {{ .panicPercent }}}
# A replica that discovery no longer names gets no new request, even if something answers there.
ignore_health_on_host_removal: true
{{- end }}
{{- with $root.Values.upstream.outliers }}
outlier_detection:
  interval: 1s
  # Only failures to talk to a replica in a row eject it: no connection, a reset, or no reply in time, which
  # Envoy counts as 503 and 504. Its own 5xx count as 500 (gateway.envoy.failures): a replica that sheds load or
  # answers with errors would take the others down with it. Local failures are not counted apart
  # (split_external_local_origin_errors), because each request that a silent replica is given would end the row.
  consecutive_gateway_failure: {{ int .consecutiveFailures }}
  enforcing_consecutive_gateway_failure: 100
  enforcing_consecutive_5xx: 0
  # Statistics over replicas need more of them than a small service has.
  enforcing_success_rate: 0
  base_ejection_time: {{ include "gateway.duration" (list $root "upstream.outliers.ejectionTime") }}
  max_ejection_time: {{ include "gateway.duration" (list $root "upstream.outliers.maxEjectionTime") }}
  max_ejection_percent: {{ int .maxPercent }}
  max_ejection_time_jitter: {{ include "gateway.duration" (list $root "upstream.outliers.jitter") }}
  {{- if .failurePercent }}
  # But one that fails nearly everything does, where there are others: it fails fast, so that it always
  # has the fewest requests in flight.
  failure_percentage_threshold: {{ int .failurePercent }}
  enforcing_failure_percentage: 100
  failure_percentage_request_volume: {{ int .failureRequests }}
  failure_percentage_minimum_hosts: 2
  # Its health checks may be good, and would take it back within a second.
  successful_active_health_check_uneject_host: false
  {{- end }}
{{- end -}}
{{- end -}}

{{/* What counts as a failure: shed load does not, or an overloaded fleet would lose half of its replicas. */}}
{{- define "gateway.envoy.failures" -}}
outlier_detection:
  error_matcher:
    and_match:
      rules:
      - http_response_headers_match:
          headers: [{name: ":status", string_match: {prefix: "5"}}]
      - not_match:
          http_response_headers_match:
            headers: [{name: {{ .Values.upstream.outliers.shedHeader | quote }}, present_match: true}]
{{- end -}}

{{- define "gateway.envoy.limits" -}}
circuit_breakers:
  thresholds:
  - max_connections: {{ int .Values.upstream.limits.connections }}
    max_pending_requests: {{ int .Values.upstream.limits.pending }}
    max_requests: {{ int .Values.upstream.limits.requests }}
    retry_budget:
      budget_percent: {value: {{ .Values.upstream.retries.budget.percent }}}
      min_retry_concurrency: {{ int .Values.upstream.retries.budget.min }}
  per_host_thresholds:
  - max_connections: {{ int .Values.upstream.limits.connectionsPerReplica }}
{{- end -}}

{{/*
Which replica takes the next request: the policy, its settings, and the hash key of the routes.
Takes the root context and a service.
*/}}
{{- define "gateway.envoy.balancing" -}}
{{- $extensions := dict
  "least-request" (list "least_request" "LeastRequest")
  "least-request-p2c" (list "least_request" "LeastRequest")
  "round-robin" (list "round_robin" "RoundRobin")
  "load-aware" (list "client_side_weighted_round_robin" "ClientSideWeightedRoundRobin")
  "ring-hash" (list "ring_hash" "RingHash") -}}
{{- $policy := .service.balancing -}}
{{- $extension := get $extensions $policy -}}
{{- with .root -}}
load_balancing_policy:
  policies:
  - typed_extension_config:
      name: envoy.load_balancing_policies.{{ first $extension }}
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.{{ first $extension }}.v3.{{ last $extension }}
        {{- with include (printf "gateway.envoy.balancing.%s" $policy) . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "gateway.envoy.slowStart" . }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}
{{- end -}}

{{/* Of several that have the fewest, one at random: gateways that start together do not agree. */}}
{{- define "gateway.envoy.balancing.least-request" -}}
selection_method: FULL_SCAN
{{- end -}}

{{- define "gateway.envoy.balancing.least-request-p2c" -}}
selection_method: N_CHOICES
choice_count: {{ int (.Values.upstream.balancing.choices | default 2) }}
{{- end -}}

{{- define "gateway.envoy.balancing.round-robin" -}}{{- end -}}

{{- define "gateway.envoy.balancing.load-aware" -}}
{{- $values := .Values.upstream.balancing.loadAware -}}
{{- with $values.metrics -}}
metric_names_for_computing_utilization: {{ toJson . }}
{{ end -}}
blackout_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.blackout") }}
weight_expiration_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.expiry") }}
weight_update_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.update") }}
error_utilization_penalty: {{ $values.errorPenalty }}
{{- end -}}

{{- define "gateway.envoy.balancing.ring-hash" -}}
{{- with .Values.upstream.balancing.ringHash.boundPercent -}}
consistent_hashing_lb_config: {hash_balance_factor: {{ int . }}}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.slowStart" -}}
{{- if include "common.milliseconds" (list . "upstream.balancing.slowStart.window") | int64 -}}
{{- with .Values.upstream.balancing.slowStart -}}
slow_start_config:
  slow_start_window: {{ include "gateway.duration" (list $ "upstream.balancing.slowStart.window") }}
  min_weight_percent: {value: {{ int .minWeightPercent }}}
  # The filter's schema demands a runtime key; nothing sets it.
  aggression: {default_value: {{ .aggression }}, runtime_key: unset}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* By what ring-hash chooses, for routes to services that have this policy. */}}
{{- define "gateway.envoy.hashPolicy" -}}
{{- with .Values.upstream.balancing.ringHash -}}
hash_policy:
{{- if eq .key "header" }}
- header: {header_name: {{ .name | quote }}}
{{- else if eq .key "query" }}
- query_parameter: {name: {{ .name | quote }}}
{{- else if eq .key "source-address" }}
- connection_properties: {source_ip: true}
{{- else if .cookieLife }}
- cookie: {name: {{ .name | quote }}, path: /, ttl: {{ include "gateway.duration" (list $ "upstream.balancing.ringHash.cookieLife") }}}
{{- else }}
- cookie: {name: {{ .name | quote }}}
{{- end }}
{{- end -}}
{{- end -}}
