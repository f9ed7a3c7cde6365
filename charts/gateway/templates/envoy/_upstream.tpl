{{/*
The replicas: balancing, health and limits. _discovery.tpl describes how they are found.
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
    # TCP_USER_TIMEOUT of IPPROTO_TCP. Without it, the kernel retransmits a request to a lost node
    # for 15 minutes, during which keepalive does not send probes (tcp(7)).
    - {level: 6, name: 18, int_value: {{ . }}, state: STATE_PREBIND, description: TCP_USER_TIMEOUT}
  {{- end }}
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      common_http_protocol_options:
        # Shorter than the server's timeouts.idle, because the side that sends the next request must
        # also close the connection.
        idle_timeout: {{ include "gateway.duration" (list . "upstream.idleTimeout") }}
        # Envoy treats a reply that exceeds these limits as a reset and therefore retries it.
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

{{/* The health check of replicas. Takes the check of a service and the check of the upstream. */}}
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
  # By default, Envoy would check only once a minute before the first request.
  no_traffic_interval: {{ include "gateway.duration" (list $root "upstream.health.interval") }}
  timeout: {{ include "gateway.duration" (list $root "upstream.health.timeout") }}
  unhealthy_threshold: {{ int .unhealthyThreshold }}
  healthy_threshold: {{ int .healthyThreshold }}
common_lb_config:
  # Notify the workers of each change at once. By default, Envoy collects changes for a second.
  update_merge_window: 0s
  healthy_panic_threshold: {value: {{ .panicPercent }}}
# A replica that discovery no longer lists gets no new requests, even if something still answers at
# its address.
ignore_health_on_host_removal: true
{{- end }}
{{- with $root.Values.upstream.outliers }}
outlier_detection:
  interval: 1s
  # Only consecutive connection failures eject a replica: no connection, a reset, or no reply in
  # time, which Envoy counts as 503 and 504. The replica's own 5xx responses count as 500
  # (gateway.envoy.failures), because ejecting a replica that sheds load or returns errors would
  # overload the others. Local failures are not counted separately
  # (split_external_local_origin_errors), because each request that a silent replica accepts would
  # reset the count.
  consecutive_gateway_failure: {{ int .consecutiveFailures }}
  enforcing_consecutive_gateway_failure: 100
  enforcing_consecutive_5xx: 0
  # Statistics across replicas need more replicas than a small service has.
  enforcing_success_rate: 0
  base_ejection_time: {{ include "gateway.duration" (list $root "upstream.outliers.ejectionTime") }}
  max_ejection_time: {{ include "gateway.duration" (list $root "upstream.outliers.maxEjectionTime") }}
  max_ejection_percent: {{ int .maxPercent }}
  max_ejection_time_jitter: {{ include "gateway.duration" (list $root "upstream.outliers.jitter") }}
  {{- if .failurePercent }}
  # If there are other replicas, a replica that fails nearly all of its requests is ejected too.
  # Because it fails fast, it always has the fewest requests in flight.
  failure_percentage_threshold: {{ int .failurePercent }}
  enforcing_failure_percentage: 100
  failure_percentage_request_volume: {{ int .failureRequests }}
  failure_percentage_minimum_hosts: 2
  # Such a replica may pass its health checks, which would return it to rotation within a second.
  successful_active_health_check_uneject_host: false
  {{- end }}
{{- end -}}
{{- end -}}

{{/* What counts as a failure. Shed load does not, because otherwise an overloaded fleet would lose half of its
replicas. */}}
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
Which replica gets the next request: the policy, its settings, and the routes' hash key. Takes the root context and a
service.
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

{{/* Picks at random among replicas with equally few requests, so that gateways that start at the same time do not pick
the same replica. */}}
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
  # The filter's schema requires a runtime key, which nothing sets.
  aggression: {default_value: {{ .aggression }}, runtime_key: unset}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The key that ring-hash uses, for routes to services with this policy. */}}
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
