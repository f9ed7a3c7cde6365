{{/*
The whole Envoy configuration. Each part has its own file in this folder.
*/}}
{{- define "gateway.envoy" -}}
node: {id: gateway, cluster: corelane}
{{- include "gateway.envoy.workers" . }}
{{ include "gateway.envoy.admin" . }}
{{ include "gateway.envoy.stats" . }}
{{ include "gateway.envoy.overload" . }}
{{ include "gateway.envoy.runtime" . }}
{{- if include "gateway.dynamic" . }}
dynamic_resources:
  cds_config: {{ include "gateway.envoy.file" "all_clusters" }}
  {{- if include "gateway.objects.tls" . }}
  lds_config: {{ include "gateway.envoy.file" "all_listeners" }}
  {{- end }}
{{- end }}
{{- if include "gateway.rateLimit.shared" . }}
cluster_manager: {local_cluster_name: gateways}
{{- end }}
static_resources:
  listeners:
  {{- include "gateway.envoy.ingress" . | nindent 2 }}
  {{- include "gateway.envoy.statsListener" . | nindent 2 }}
  {{- if and .Values.authentication.jwt.enabled (not .Values.authentication.jwt.url) }}
  {{- include "gateway.envoy.jwksListener" . | nindent 2 }}
  {{- end }}
  clusters:
  {{- if not (include "gateway.dynamic" .) }}
  {{- include "gateway.envoy.upstream" . | nindent 2 }}
  {{- end }}
  {{- include "gateway.envoy.adminCluster" . | nindent 2 }}
  {{- if .Values.externalAuthorization.enabled }}
  {{- include "gateway.envoy.authorization" . | nindent 2 }}
  {{- end }}
  {{- if include "gateway.rateLimit.shared" . }}
  {{- include "gateway.envoy.gateways" . | nindent 2 }}
  {{- end }}
  {{- if .Values.authentication.jwt.enabled }}
  {{- include "gateway.envoy.jwks" . | nindent 2 }}
  {{- end }}
  {{- if .Values.authentication.oidc.enabled }}
  {{- include "gateway.envoy.oidcClusters" . | nindent 2 }}
  {{- end }}
  {{- if .Values.tracing.enabled }}
  {{- include "gateway.envoy.collector" . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/*
The admin interface can stop Envoy and show its configuration. It therefore listens only on loopback and serves only the
paths that operators need.
*/}}
{{- define "gateway.envoy.admin" -}}
admin:
  address: {socket_address: {address: 127.0.0.1, port_value: {{ .Values.admin.port }}}}
  # This listener is reachable even when the connection limit is reached.
  ignore_global_conn_limit: true
  allow_paths:
  - {prefix: /ready}
  - {prefix: /stats}
  - {prefix: /clusters}
  - {prefix: /listeners}
  - {prefix: /config_dump}
  - {prefix: /server_info}
  - {prefix: /logging}
  - {prefix: /runtime}
  - {prefix: /certs}
  - {prefix: /drain_listeners}
  - {prefix: /healthcheck/}
{{- end -}}

{{/* A later layer takes precedence over an earlier one. The admin interface changes the last layer. */}}
{{- define "gateway.envoy.runtime" -}}
layered_runtime:
  layers:
  # Chunks must end in CRLF (RFC 9112 section 7.1). By default, Envoy also accepts other line ends.
  - name: chart
    static_layer: {envoy.reloadable_features.strict_chunk_parsing: true}
  - name: static
    static_layer: {{ merge dict (.Values.runtime | default dict) (dict "http.max_requests_per_io_cycle" (int .Values.listener.http2.requestsPerTurn)) | toJson }}
  - name: admin
    admin_layer: {}
{{- end -}}

{{/* A series that is not listed costs nothing, because Envoy does not even count it. */}}
{{- define "gateway.envoy.stats" -}}
stats_config:
  stats_matcher:
    inclusion_list:
      patterns:
      - {prefix: server.}
      - {prefix: overload.}
      - {prefix: envoy.overload_actions.}
      - {prefix: listener_manager.}
      - {prefix: listener.ingress.downstream_}
      - {prefix: http.ingress.downstream_}
      {{- $groups := list "upstream_" "membership_" "lb_healthy_panic" "health_check." "outlier_detection." "circuit_breakers.default." "update_" }}
      {{- if include "common.mtls" . }}
      {{- $groups = concat $groups (list "ssl.handshake" "ssl.connection_error" "ssl.fail_verify_" "client_ssl_socket_factory.") }}
      - {prefix: sds.mtls-}
      {{- end }}
      {{- if include "gateway.dynamic" . }}
      # Matches every cluster of a route: only these clusters have a hyphen or an underscore in
      # their names.
      - safe_regex: {regex: 'cluster\.[^.]+[-_][^.]+\.({{ join "|" $groups | replace "." "\\." }}).*'}
      # The agent reads these to see which clusters and routes Envoy uses.
      - {exact: cluster_manager.warming_clusters}
      - safe_regex: {regex: '(cluster_manager\.cds|http\.ingress\.rds\.ingress|extension_config_discovery\.http_filter\.corelane\.route_rate_limits)\.(version_text|update_rejected)'}
      {{- else }}
      {{- range $cluster := include "gateway.services" . | fromJson | keys | sortAlpha }}
      {{- range $groups }}
      - {prefix: cluster.{{ $cluster }}.{{ . }}}
      {{- end }}
      {{- end }}
      {{- end }}
      {{- if .Values.tls.enabled }}
      - {prefix: listener.ingress.ssl.}
      - {prefix: listener.ingress.server_ssl_socket_factory.}
      {{- end }}
      {{- if or .Values.rateLimit.enabled (include "gateway.routes.with" (list . "rateLimit")) (include "gateway.dynamic" .) }}
      - {prefix: ingress.http_local_rate_limit.}
      {{- end }}
      {{- if include "gateway.rateLimit.shared" . }}
      # The rate limit reads this gauge, which would be 0 if it were not listed here.
      - {exact: cluster.gateways.membership_total}
      {{- end }}
      {{- if include "gateway.envoy.filter.cors" . }}
      - {prefix: http.ingress.cors.}
      {{- end }}
      {{- if or .Values.authentication.jwt.enabled .Values.authentication.oidc.enabled }}
      - {prefix: http.ingress.jwt_authn.}
      - {prefix: http.ingress.credential_injector.}
      {{- end }}
      {{- if .Values.authentication.oidc.enabled }}
      - {prefix: http.ingress.oauth_}
      - safe_regex: {regex: 'cluster\.oidc\.upstream_rq_[0-9]+'}
      {{- end }}
      {{- if or (include "gateway.envoy.filter.claims" .) (include "gateway.envoy.filter.clientCertificate" .) }}
      - {prefix: http.ingress.rbac.}
      {{- end }}
      {{- if .Values.externalAuthorization.enabled }}
      - {prefix: http.ingress.ext_authz.}
      - {prefix: cluster.authorization.upstream_rq}
      {{- end }}
      {{- if .Values.compression.enabled }}
      - safe_regex: {regex: 'http\.ingress\.compressor\.corelane\.(gzip|brotli)\.response\.(compressed|total_(un)?compressed_bytes)'}
      {{- end }}
      {{- if include "gateway.credentials" . }}
      - safe_regex: {regex: 'http\.ingress\.(api_key_auth|basic_auth)\..*'}
      {{- end }}
      {{- if .Values.tracing.enabled }}
      - {prefix: tracing.opentelemetry.}
      - {prefix: http.ingress.tracing.}
      - {prefix: cluster.collector.upstream_rq}
      {{- end }}
{{- end -}}

{{/* A duration in protobuf's JSON format, such as 0.250s. Takes a list of the root context and the
dotted name of a value. */}}
{{- define "gateway.duration" -}}
{{- include "gateway.seconds" (include "common.milliseconds" . | int64) -}}
{{- end -}}

{{/* The same for milliseconds. */}}
{{- define "gateway.seconds" -}}
{{- $milliseconds := int64 . -}}
{{- if mod $milliseconds 1000 -}}
{{- printf "%d.%03ds" (div $milliseconds 1000) (mod $milliseconds 1000) -}}
{{- else -}}
{{- printf "%ds" (div $milliseconds 1000) -}}
{{- end -}}
{{- end -}}
