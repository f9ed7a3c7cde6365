{{/*
Spans for an OpenTelemetry collector: one for a request, and one for each attempt at a replica.
*/}}
{{- define "gateway.envoy.tracing" -}}
{{- with .Values.tracing -}}
tracing:
  random_sampling: {value: {{ .percent }}}
  # Clients cannot have their requests traced.
  client_sampling: {value: 0}
  spawn_upstream_span: true
  provider:
    name: envoy.tracers.opentelemetry
    typed_config:
      "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
      service_name: {{ .serviceName | quote }}
      {{- if eq .protocol "grpc" }}
      grpc_service: {envoy_grpc: {cluster_name: collector}, timeout: 1s}
      {{- else }}
      http_service: {http_uri: {uri: {{ printf "http://%s:%d%s" .host (int .port) .path | quote }}, cluster: collector, timeout: 1s}}
      {{- end }}
{{- end -}}
{{- end -}}

{{/* Strict DNS, so that spans spread over the pods of a headless Service. */}}
{{- define "gateway.envoy.collector" -}}
- name: collector
  connect_timeout: 1s
  cluster_type:
    name: envoy.clusters.dns
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
      dns_refresh_rate: 30s
      dns_lookup_family: V4_PREFERRED
  {{- if eq .Values.tracing.protocol "grpc" }}
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  {{- end }}
  load_assignment:
    cluster_name: collector
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {socket_address: {address: {{ .Values.tracing.host | quote }}, port_value: {{ .Values.tracing.port }}}}
{{- end -}}
