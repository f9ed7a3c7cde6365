{{/*
JSON lines for requests that failed or were slow, and for a sample of all other requests. Empty fields are omitted, so a
rejected request has no upstream.
*/}}
{{- define "gateway.envoy.accessLog" -}}
{{- if .Values.accessLog.enabled -}}
access_log:
- name: envoy.access_loggers.stdout
  {{- if lt (float64 .Values.accessLog.percent) 100.0 }}
  {{- include "gateway.envoy.accessLogFilter" . | nindent 2 }}
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
    log_format:
      omit_empty_values: true
      json_format:
        time: "%START_TIME%"
        request_id: "%REQ(X-REQUEST-ID)%"
        client: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"
        protocol: "%PROTOCOL%"
        method: "%REQ(:METHOD)%"
        authority: "%REQ(:AUTHORITY)%"
        path: "%REQ(:PATH)%"
        {{- if include "gateway.routed" . }}
        route: "%ROUTE_NAME%"
        {{- end }}
        status: "%RESPONSE_CODE%"
        # Why Envoy itself ended or retried the request.
        flags: "%RESPONSE_FLAGS%"
        details: "%RESPONSE_CODE_DETAILS%"
        attempts: "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"
        upstream: "%UPSTREAM_HOST%"
        upstream_failure: "%UPSTREAM_TRANSPORT_FAILURE_REASON%"
        replica: "%RESP(CORELANE-REPLICA)%"
        lane: "%RESP(CORELANE-LANE)%"
        bytes_received: "%BYTES_RECEIVED%"
        bytes_sent: "%BYTES_SENT%"
        duration_ms: "%DURATION%"
        # The time from the last byte sent to the replica to the first byte of its reply.
        upstream_us: "%COMMON_DURATION(US_TX_END:US_RX_BEG:us)%"
        {{- if .Values.tracing.enabled }}
        trace_id: "%TRACE_ID%"
        {{- end }}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.accessLogFilter" -}}
filter:
  or_filter:
    filters:
    - status_code_filter: {comparison: {op: GE, value: {default_value: {{ int .Values.accessLog.status }}, runtime_key: access_log.status}}}
    - duration_filter: {comparison: {op: GE, value: {default_value: {{ include "common.milliseconds" (list . "accessLog.slow") }}, runtime_key: access_log.slow}}}
    # Replies that were cut off after their status, because the replica closed the connection (UC)
    # or reset the stream (UR), or because of a timeout (UT, SI, DT, UMSDR).
    - response_flag_filter: {flags: [UC, UR, UT, SI, DT, UMSDR]}
    - runtime_filter:
        runtime_key: access_log.sample
        percent_sampled: {numerator: {{ mulf .Values.accessLog.percent 10000 | int }}, denominator: MILLION}
        use_independent_randomness: true
{{- end -}}

{{/*
Spans for an OpenTelemetry collector: one for each request and, if enabled, one for each attempt. Envoy creates them
even for requests that are not sampled.
*/}}
{{- define "gateway.envoy.tracing" -}}
{{- with .Values.tracing -}}
tracing:
  random_sampling: {value: {{ .percent }}}
  # Clients cannot request that their requests are traced.
  client_sampling: {value: 0}
  spawn_upstream_span: {{ .attempts }}
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

{{/* Strict DNS, so that spans are spread over the pods of a headless Service. */}}
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
