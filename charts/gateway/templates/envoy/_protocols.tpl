{{/*
What long exchanges need, and protocols other than plain HTTP/1.1 from client to replica.
*/}}

{{/*
A reply may take any time while bytes pass. Before it begins, silence is answered with 504. Takes the root
context.
*/}}
{{- define "gateway.envoy.routeTimeouts" -}}
timeout: 0s
idle_timeout: {{ include "gateway.duration" (list . "upstream.timeout") }}
# Of a reply that the replica has finished, but its client does not read.
flush_timeout: {{ include "gateway.duration" (list . "listener.timeouts.stream") }}
{{- if eq .Values.upstream.protocol "grpc" }}
# A call ends at its deadline, if the client has sent one (`grpc-timeout`).
max_stream_duration: {grpc_timeout_header_max: 0s}
{{- end }}
{{- end -}}

{{/*
HTTP/1.0 has no chunks, so a proxy in front may have read another end of such a request (RFC 9112 section
6.1). Routes see neither the version nor Transfer-Encoding: these fields tell them, and go no further.
*/}}
{{- define "gateway.envoy.version" -}}
early_header_mutation_extensions:
- name: envoy.http.early_header_mutation.header_mutation
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
    mutations:
    {{- range $name, $value := dict "corelane-coding" "%REQ(TRANSFER-ENCODING)%" "corelane-version" "%PROTOCOL%" }}
    - remove: {{ $name }}
    - append:
        header: {key: {{ $name }}, value: {{ $value | quote }}}
        append_action: OVERWRITE_IF_EXISTS_OR_ADD
    {{- end }}
{{- end -}}

{{- define "gateway.envoy.chunksOfHttp10" -}}
- name: chunks-of-http-1-0
  match:
    prefix: /
    headers:
    - {name: corelane-coding, present_match: true}
    - {name: corelane-version, string_match: {exact: HTTP/1.0}}
  direct_response: {status: 400}
  response_headers_to_add: [{header: {key: connection, value: close}}]
{{- end -}}

{{/*
Connections that another protocol takes over. To routes, one of HTTP/2 (extended CONNECT, RFC 8441) looks
like one of HTTP/1.1. Takes the root context.
*/}}
{{- define "gateway.envoy.upgrades" -}}
{{- with .Values.upstream.upgrade -}}
- name: upgrade
  match:
    prefix: /
    headers: [{name: upgrade, string_match: {safe_regex: {regex: {{ printf "(?i)%s" (join "|" .) | quote }}}}}]
  route:
    cluster: server
    timeout: 0s
    idle_timeout: {{ include "gateway.duration" (list $ "listener.timeouts.upgraded") }}
    # Whatever holds for requests.
    max_stream_duration: {max_stream_duration: 0s}
    upgrade_configs:
    {{- range . }}
    - upgrade_type: {{ . }}
    {{- end }}
    {{- with include "gateway.envoy.hashPolicy" $ }}
    {{- . | nindent 4 }}
    {{- end }}
    retry_policy:
      retry_on: connect-failure,refused-stream,reset-before-request,retriable-headers
      {{- include "gateway.envoy.retryPolicy" $ | nindent 6 }}
  # HTTP/2 has no such field (RFC 8441 section 5.1), but replicas that speak HTTP/1.1 require it.
  request_headers_to_add:
  - header: {key: sec-websocket-key, value: Y29yZWxhbmUtZ2F0ZXdheQ==}
    append_action: ADD_IF_ABSENT
  {{- if $.Values.listener.bodyBytes }}
  # It would count every byte that the client ever sends.
  typed_per_filter_config:
    envoy.filters.http.body_size_limit:
      "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
      disabled: true
  {{- end }}
{{- end -}}
{{- end -}}

{{/* How the gateway speaks to replicas. Takes the root context. */}}
{{- define "gateway.envoy.upstreamProtocol" -}}
{{- if eq .Values.upstream.protocol "http1" -}}
explicit_http_config:
  http_protocol_options: {}
{{- else if eq .Values.upstream.protocol "auto" -}}
# As the client speaks.
use_downstream_protocol_config:
  http_protocol_options: {}
  http2_protocol_options:
    max_concurrent_streams: {{ int .Values.upstream.http2Streams }}
{{- else -}}
explicit_http_config:
  http2_protocol_options:
    max_concurrent_streams: {{ int .Values.upstream.http2Streams }}
{{- end -}}
{{- end -}}

{{/* Calls of browsers, which cannot read the trailers of gRPC. */}}
{{- define "gateway.envoy.grpcWeb" -}}
- name: envoy.filters.http.grpc_web
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb
{{- end -}}

{{/* What the gateway replies to a call is a status of gRPC, with the phrase instead of a document. */}}
{{- define "gateway.envoy.grpcReplies" -}}
- filter: {header_filter: {header: {name: content-type, string_match: {prefix: application/grpc}}}}
  body_format_override: {text_format_source: {inline_string: "%LOCAL_REPLY_BODY%"}}
{{- end -}}

{{/* Takes the root context. */}}
{{- define "gateway.envoy.healthCheck" -}}
{{- if .Values.upstream.health.grpc -}}
grpc_health_check: {}
{{- else -}}
http_health_check: {path: {{ .Values.upstream.health.path | quote }}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.protocols" -}}
{{- if eq .Values.mode "gatewayAPI" -}}
{{- if ne .Values.upstream.protocol "http1" -}}
{{- fail (printf "upstream.protocol is %s, but in mode gatewayAPI it is http1: set it to http1, or mode to envoy" .Values.upstream.protocol) -}}
{{- end -}}
{{- if .Values.upstream.health.grpc -}}
{{- fail "upstream.health.grpc is true, but mode gatewayAPI checks health by HTTP: set it to false, or mode to envoy" -}}
{{- end -}}
{{- end -}}
{{- end -}}
