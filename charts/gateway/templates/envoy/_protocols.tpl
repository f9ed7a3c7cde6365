{{/*
What long exchanges need, and protocols other than plain HTTP/1.1 from client to replica.
*/}}

{{/*
A reply may take any time while bytes pass, unless its route has a limit. Takes the root context, a route, one
of its rules and all services.
*/}}
{{- define "gateway.envoy.routeTimeouts" -}}
{{- $root := first . -}}
{{- $route := index . 1 -}}
{{- $times := $route.milliseconds -}}
{{- $whole := include "gateway.seconds" $times.timeout -}}
{{- if (index . 2).upgrade -}}
timeout: 0s
idle_timeout: {{ include "gateway.seconds" $times.upgraded }}
# Whatever holds for requests.
max_stream_duration: {max_stream_duration: 0s}
{{- else -}}
timeout: {{ $whole }}
# Silence before a reply ends first by the timeout of its attempt, which outlier detection counts.
idle_timeout: {{ include "gateway.seconds" (ternary (add $times.idleTimeout 1000) 0 (gt (int64 $times.idleTimeout) 0)) }}
# Of a reply that the replica has finished, but its client does not read.
flush_timeout: {{ include "gateway.duration" (list $root "listener.timeouts.stream") }}
{{- if and $times.timeout (eq (get (last .) (first $route.services).cluster).protocol "grpc") }}
# Also of calls whose client still sends: Envoy's `timeout` begins when the request is complete, and is ignored with
# this. The client alone ends a call at its deadline (`grpc-timeout`): a second timer would win every second time, and
# reset a call whose reply has begun.
max_stream_duration: {max_stream_duration: {{ $whole }}}
{{- end }}
{{- end -}}
{{- end -}}

{{/*
HTTP/1.0 has no chunks, so a proxy in front may have read another end of such a request (RFC 9112 section
6.1). Routes see neither the version nor Transfer-Encoding, and Envoy overwrites the deadline of a call whose
route has a timeout. These fields tell them, and go no further. They come from no client.
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

{{/* Headers that only the gateway sets, as JSON: it removes a client's, on every route. */}}
{{- define "gateway.reservedHeaders" -}}
{{- $headers := list -}}
{{- with .Values.authentication -}}
{{- if and .jwt.enabled .jwt.claimsHeader -}}
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

{{/* The names of these fields, and what they say. */}}
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

{{/* Not empty if a route of calls has a timeout, or may in time. */}}
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

{{/* How the gateway speaks to the replicas of a service. Takes the root context and the protocol. */}}
{{- define "gateway.envoy.protocol" -}}
{{- $streams := int (first .).Values.upstream.http2Streams -}}
{{- if eq (last .) "http1" -}}
explicit_http_config:
  http_protocol_options: {}
{{- else if eq (last .) "auto" -}}
# As the client speaks.
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

{{/* Not empty if a service speaks gRPC, or may in time. */}}
{{- define "gateway.grpc" -}}
{{- include "gateway.dynamic" . -}}
{{- range include "gateway.services" . | fromJson -}}
{{- if eq .protocol "grpc" }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* What the gateway replies to a call is a status of gRPC, with the phrase instead of a document. */}}
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
