{{/*
JSON lines, for what went wrong or took long and for a sample of the rest. Empty fields are left out, so a
refused request has no upstream.
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
        status: "%RESPONSE_CODE%"
        # Why Envoy itself ended or repeated the request.
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
        # From the last byte sent to the replica to the first byte of its reply.
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
    # Replies that were cut after their status: the replica's connection ended (UC), it reset the stream
    # (UR), or a timeout did (UT, SI, DT, UMSDR).
    - response_flag_filter: {flags: [UC, UR, UT, SI, DT, UMSDR]}
    - runtime_filter:
        runtime_key: access_log.sample
        percent_sampled: {numerator: {{ mulf .Values.accessLog.percent 10000 | int }}, denominator: MILLION}
        use_independent_randomness: true
{{- end -}}
