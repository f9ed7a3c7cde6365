{{/*
Settings for long exchanges, and for protocols other than plain HTTP/1.1 from client to replica.
*/}}

{{/*
A reply may take any time as long as bytes pass, unless its route has a limit. Takes the root context, a route, one of
its rules and all services.
*/}}
{{- define "gateway.envoy.routeTimeouts" -}}
{{- $root := first . -}}
{{- $route := index . 1 -}}
{{- $times := $route.milliseconds -}}
{{- $whole := include "gateway.seconds" $times.timeout -}}
{{- if (index . 2).upgrade -}}
timeout: 0s
idle_timeout: {{ include "gateway.seconds" $times.upgraded }}
# Everything that applies to requests.
max_stream_duration: {max_stream_duration: 0s}
{{- else -}}
timeout: {{ $whole }}
# If the replica is silent, the attempt's own timeout fires first, which outlier detection counts.
idle_timeout: {{ include "gateway.seconds" (ternary (add $times.idleTimeout 1000) 0 (gt (int64 $times.idleTimeout) 0)) }}
# For a reply that the replica has finished but the client does not read.
flush_timeout: {{ include "gateway.duration" (list $root "listener.timeouts.stream") }}
{{- if and $times.timeout (eq (get (last .) (first $route.services).cluster).protocol "grpc") }}
# This also limits calls whose client is still sending. Envoy's `timeout` starts only when the
# request is complete, and this setting overrides it. Only the client ends a call at its deadline
# (`grpc-timeout`). A second timer would fire first half of the time and reset a call whose reply
# has begun.
max_stream_duration: {max_stream_duration: {{ $whole }}}
{{- end }}
{{- end -}}
{{- end -}}

{{/*
HTTP/1.0 has no chunks, so a proxy in front may disagree about where such a request ends (RFC 9112 section 6.1). Routes
see neither the version nor Transfer-Encoding, and Envoy overwrites the deadline of a call whose route has a timeout.
These fields carry this information to the routes and no further. Fields with these names from clients are removed.
*/}}
{{- define "gateway.envoy.marks" -}}
{{- $reserved := include "gateway.reservedHeaders" . | fromJsonArray -}}
{{- $marks := include "gateway.marks" . | fromJson -}}
{{- if or $marks $reserved -}}
early_header_mutation_extensions:
- name: envoy.http.early_header_mutation.header_mutation
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
    mutations:
    {{- range $reserved }}
    - remove: {{ . }}
    {{- end }}
    {{- range $name, $value := $marks }}
    - remove: {{ $name }}
    - append:
        header: {key: {{ $name }}, value: {{ $value | quote }}}
        append_action: OVERWRITE_IF_EXISTS_OR_ADD
    {{- end }}
{{- end -}}
{{- end -}}

{{/* Headers that only the gateway sets, as JSON. It removes them from client requests on every route. */}}
{{- define "gateway.reservedHeaders" -}}
{{- $headers := list -}}
{{- with .Values.authentication -}}
{{- if and (or .jwt.enabled .oidc.enabled) .jwt.claimsHeader -}}
{{- $headers = append $headers .jwt.claimsHeader -}}
{{- end -}}
{{- if .apiKeys.enabled -}}
{{- $headers = append $headers .apiKeys.clientHeader -}}
{{- end -}}
{{- if .basicAuth.enabled -}}
{{- $headers = append $headers .basicAuth.userHeader -}}
{{- end -}}
{{- end -}}
{{- with .Values.externalAuthorization -}}
{{- if .enabled -}}
{{- $headers = concat $headers .responseHeaders -}}
{{- end -}}
{{- end -}}
{{- toJson $headers -}}
{{- end -}}

{{/* The names of these fields, and their contents. */}}
{{- define "gateway.marks" -}}
{{- $marks := dict -}}
{{- if or .Values.listener.http10 (include "gateway.handshakes" .) -}}
{{- $marks = dict "corelane-coding" "%REQ(TRANSFER-ENCODING)%" "corelane-version" "%PROTOCOL%" -}}
{{- end -}}
{{- if include "gateway.limitedCalls" . -}}
{{- $_ := set $marks "corelane-deadline" "%REQ(GRPC-TIMEOUT)%" -}}
{{- end -}}
{{- toJson $marks -}}
{{- end -}}

{{/* Not empty if a gRPC route has a timeout or may have one later. */}}
{{- define "gateway.limitedCalls" -}}
{{- include "gateway.dynamic" . -}}
{{- $services := include "gateway.services" . | fromJson -}}
{{- range include "gateway.routes" . | fromJsonArray -}}
{{- if and (int64 .milliseconds.timeout) (eq (get $services (first .services).cluster).protocol "grpc") }}yes{{ end -}}
{{- end -}}
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

{{/* The protocol options for connections to a service's replicas. Takes the root context and the protocol. */}}
{{- define "gateway.envoy.protocol" -}}
{{- $streams := int (first .).Values.upstream.http2Streams -}}
{{- if eq (last .) "http1" -}}
explicit_http_config:
  http_protocol_options: {}
{{- else if eq (last .) "auto" -}}
# The client's protocol.
use_downstream_protocol_config:
  http_protocol_options: {}
  http2_protocol_options:
    max_concurrent_streams: {{ $streams }}
{{- else -}}
explicit_http_config:
  http2_protocol_options:
    max_concurrent_streams: {{ $streams }}
{{- end -}}
{{- end -}}

{{/* Not empty if a service uses gRPC or may do so later. */}}
{{- define "gateway.grpc" -}}
{{- include "gateway.dynamic" . -}}
{{- range include "gateway.services" . | fromJson -}}
{{- if eq .protocol "grpc" }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* The gateway's own reply to a call is a gRPC status, with the reason phrase instead of a document. */}}
{{- define "gateway.envoy.grpcReplies" -}}
- filter: {header_filter: {header: {name: content-type, string_match: {prefix: application/grpc}}}}
  body_format_override: {text_format_source: {inline_string: "%LOCAL_REPLY_BODY%"}}
{{- end -}}

{{- define "gateway.guards.protocols" -}}
{{- $fix := "a client of HTTP/1.1 would get no Sec-WebSocket-Accept, which HTTP/2 does not have (RFC 8441 section 5). Set protocol to http1 or auto, or upgrade to []" -}}
{{- if and .Values.upstream.upgrade (has .Values.upstream.protocol (list "http2" "grpc")) -}}
{{- fail (printf "upstream.upgrade is %s but upstream.protocol is %s: %s" (toJson .Values.upstream.upgrade) .Values.upstream.protocol $fix) -}}
{{- end -}}
{{- $services := include "gateway.services" . | fromJson -}}
{{- range $route := include "gateway.routes" . | fromJsonArray -}}
{{- range ternary .services list (not (not .upgrade)) -}}
{{- $protocol := (get $services .cluster).protocol -}}
{{- if has $protocol (list "http2" "grpc") -}}
{{- fail (printf "upgrade of the route %s is %s but protocol of the service %s is %s: %s" $route.name (toJson $route.upgrade) (include "gateway.service.name" .) $protocol $fix) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
