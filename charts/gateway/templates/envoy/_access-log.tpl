{{/*
One JSON object per request. Empty fields are left out, so a refused request has no upstream.
*/}}
{{- define "gateway.envoy.accessLog" -}}
{{- if .Values.accessLog.enabled -}}
access_log:
- name: envoy.access_loggers.stdout
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
{{- end -}}
{{- end -}}
