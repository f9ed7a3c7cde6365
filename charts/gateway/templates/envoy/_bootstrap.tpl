{{/*
The whole Envoy configuration. Each part has a file of its own beside this one.
*/}}
{{- define "gateway.envoy" -}}
node: {id: gateway, cluster: corelane}
{{ include "gateway.envoy.admin" . }}
{{ include "gateway.envoy.stats" . }}
{{ include "gateway.envoy.overload" . }}
{{ include "gateway.envoy.runtime" . }}
static_resources:
  listeners:
  {{- include "gateway.envoy.ingress" . | nindent 2 }}
  {{- include "gateway.envoy.statsListener" . | nindent 2 }}
  clusters:
  {{- include "gateway.envoy.upstream" . | nindent 2 }}
  {{- include "gateway.envoy.adminCluster" . | nindent 2 }}
{{- end -}}

{{/*
Whoever reaches the admin interface can stop Envoy and read its configuration, so it is on loopback
only, and only the paths that operators need answer.
*/}}
{{- define "gateway.envoy.admin" -}}
admin:
  address: {socket_address: {address: 127.0.0.1, port_value: {{ .Values.admin.port }}}}
  # Reachable even when the connection limit is used up.
  ignore_global_conn_limit: true
  allow_paths:
  - {prefix: /ready}
  - {prefix: /stats}
  - {prefix: /clusters}
  - {prefix: /listeners}
  - {prefix: /config_dump}
  - {prefix: /server_info}
  - {prefix: /logging}
  - {prefix: /drain_listeners}
  - {prefix: /healthcheck/}
{{- end -}}

{{/* A series that is not listed costs nothing: Envoy then does not even count it. */}}
{{- define "gateway.envoy.stats" -}}
stats_config:
  stats_matcher:
    inclusion_list:
      patterns:
      - {prefix: server.}
      - {prefix: listener_manager.}
      - {prefix: listener.ingress.downstream_}
      - {prefix: http.ingress.downstream_}
      - {prefix: cluster.server.upstream_}
      - {prefix: cluster.server.membership_}
      - {prefix: cluster.server.lb_healthy_panic}
      - {prefix: cluster.server.health_check.}
      - {prefix: cluster.server.outlier_detection.}
      - {prefix: cluster.server.circuit_breakers.default.}
      - {prefix: cluster.server.update_}
{{- end -}}

{{- define "gateway.envoy.overload" -}}
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: {{ int .Values.listener.connections }}
{{- end -}}

{{/* Chunks end in CRLF and nothing else (RFC 9112 section 7.1); Envoy by default also takes other ends. */}}
{{- define "gateway.envoy.runtime" -}}
layered_runtime:
  layers:
  - name: chart
    static_layer: {envoy.reloadable_features.strict_chunk_parsing: true}
{{- end -}}
