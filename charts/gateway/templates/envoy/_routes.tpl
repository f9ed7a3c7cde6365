{{/*
Every path goes to the one cluster. Two routes, because what may be retried depends on the method.
*/}}
{{- define "gateway.envoy.routes" -}}
route_config:
  name: ingress
  # Load reports of the replicas are for the gateway alone.
  response_headers_to_remove: [endpoint-load-metrics, endpoint-load-metrics-bin]
  virtual_hosts:
  - name: server
    domains: ["*"]
    routes:
    # A second run of these does no harm: retry whatever failed before the reply began.
    - name: idempotent
      match:
        prefix: /
        headers:
        - {name: ":method", string_match: {safe_regex: {regex: {{ join "|" .Values.upstream.retries.idempotentMethods | quote }}}}}
      route:
        cluster: server
        timeout: {{ include "gateway.duration" (list . "upstream.timeout") }}
        {{- with include "gateway.envoy.hashPolicy" . }}
        {{- . | nindent 8 }}
        {{- end }}
        retry_policy:
          retry_on: connect-failure,refused-stream,reset,retriable-headers
          retriable_headers: [{name: {{ .Values.upstream.retries.shedHeader | quote }}, present_match: true}]
          {{- include "gateway.envoy.retryPolicy" . | nindent 10 }}
    # These may run at most once: retry only if the request cannot have reached a handler.
    - name: once
      match: {prefix: /}
      route:
        cluster: server
        timeout: {{ include "gateway.duration" (list . "upstream.timeout") }}
        {{- with include "gateway.envoy.hashPolicy" . }}
        {{- . | nindent 8 }}
        {{- end }}
        retry_policy:
          retry_on: connect-failure,refused-stream,reset-before-request
          {{- include "gateway.envoy.retryPolicy" . | nindent 10 }}
{{- end -}}

{{- define "gateway.envoy.retryPolicy" -}}
{{- with .Values.upstream.retries -}}
num_retries: {{ int .attempts }}
retry_back_off:
  base_interval: {{ include "gateway.duration" (list $ "upstream.retries.backOff.base") }}
  max_interval: {{ include "gateway.duration" (list $ "upstream.retries.backOff.max") }}
# Another replica than those already tried; after so many draws any will do.
retry_host_predicate:
- name: envoy.retry_host_predicates.previous_hosts
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
host_selection_retry_max_attempts: 5
{{- end -}}
{{- end -}}
