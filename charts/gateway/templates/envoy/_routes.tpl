{{/*
Every path goes to the one cluster. Two routes, because what may be retried depends on the method. Takes
the root context and the listener.
*/}}
{{- define "gateway.envoy.routes" -}}
{{- $listener := .listener -}}
{{- with .root -}}
route_config:
  name: ingress
  # These are for the gateway alone. After a retry, only the last attempt is known not to have started.
  response_headers_to_remove: [endpoint-load-metrics, endpoint-load-metrics-bin, {{ .Values.upstream.retries.notStartedHeader }}]
  {{- if .Values.listener.http10 }}
  request_headers_to_remove: [corelane-coding, corelane-version]
  {{- end }}
  {{- if and .Values.http3.enabled (eq $listener "tls") }}
  {{- include "gateway.envoy.altSvc" . | nindent 2 }}
  {{- end }}
  virtual_hosts:
  - name: server
    domains: ["*"]
    routes:
    {{- include "gateway.envoy.severalHosts" . | nindent 4 }}
    # RFC 9110 section 9.3.8: a reply to TRACE would show a script headers that the browser hides from it.
    - name: trace
      match: {prefix: /, headers: [{name: ":method", string_match: {exact: TRACE}}]}
      direct_response: {status: 501}
    {{- with include "gateway.envoy.upgrades" . }}
    {{- . | nindent 4 }}
    {{- end }}
    # A second run of these does no harm: retry whatever failed before the reply began.
    - name: idempotent
      match:
        prefix: /
        headers:
        - {name: ":method", string_match: {safe_regex: {regex: {{ join "|" .Values.upstream.retries.idempotentMethods | quote }}}}}
      route:
        cluster: server
        {{- include "gateway.envoy.routeTimeouts" . | nindent 8 }}
        {{- with include "gateway.envoy.hashPolicy" . }}
        {{- . | nindent 8 }}
        {{- end }}
        retry_policy:
          retry_on: connect-failure,refused-stream,reset,retriable-headers
          {{- if .Values.upstream.retries.perTryTimeout }}
          per_try_timeout: {{ include "gateway.duration" (list . "upstream.retries.perTryTimeout") }}
          {{- end }}
          {{- include "gateway.envoy.retryPolicy" . | nindent 10 }}
    # These may run at most once: retry only if no handler was started.
    - name: once
      match: {prefix: /}
      route:
        cluster: server
        {{- include "gateway.envoy.routeTimeouts" . | nindent 8 }}
        {{- with include "gateway.envoy.hashPolicy" . }}
        {{- . | nindent 8 }}
        {{- end }}
        retry_policy:
          retry_on: connect-failure,refused-stream,reset-before-request,retriable-headers
          {{- include "gateway.envoy.retryPolicy" . | nindent 10 }}
{{- end -}}
{{- end -}}

{{/* Envoy joins two Host lines with a comma and would pass them on; RFC 9112 section 3.2 demands 400. */}}
{{- define "gateway.envoy.severalHosts" -}}
- name: several-hosts
  match: {prefix: /, headers: [{name: ":authority", string_match: {contains: ","}}]}
  direct_response: {status: 400}
{{- if .Values.listener.http10 }}
{{ include "gateway.envoy.chunksOfHttp10" . }}
{{- end }}
{{- end -}}

{{/* To the same URL by https. 308 keeps the method and the body (RFC 9110 section 15.4.9). */}}
{{- define "gateway.envoy.redirect" -}}
route_config:
  name: redirect
  virtual_hosts:
  - name: redirect
    domains: ["*"]
    routes:
    {{- include "gateway.envoy.severalHosts" . | nindent 4 }}
    - name: redirect
      match: {prefix: /}
      redirect: {https_redirect: true, port_redirect: {{ int .Values.service.httpsPort }}, response_code: PERMANENT_REDIRECT}
{{- end -}}

{{- define "gateway.envoy.retryPolicy" -}}
{{- with .Values.upstream.retries -}}
retriable_headers: [{name: {{ .notStartedHeader | quote }}, present_match: true}]
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
