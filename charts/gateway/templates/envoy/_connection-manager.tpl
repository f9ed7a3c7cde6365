{{/*
How requests are read, limited and passed on, which is the same for every client listener. Takes the root context and
the listener: plain, redirect, tls or http3.
*/}}
{{- define "gateway.envoy.connectionManager" -}}
{{- $listener := .listener -}}
{{- with .root -}}
"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
stat_prefix: ingress
{{- if eq $listener "http3" }}
codec_type: HTTP3
{{- include "gateway.envoy.http3Options" . | nindent 0 }}
{{- else }}
# HTTP/1.1, or HTTP/2 if ALPN selects it or the connection begins with its preface (h2c with prior
# knowledge).
codec_type: AUTO
{{- include "gateway.envoy.http1Options" (list . $listener) | nindent 0 }}
{{- include "gateway.envoy.http2Options" . | nindent 0 }}
{{- end }}
{{- include "gateway.envoy.marks" . | nindent 0 }}
{{- include "gateway.envoy.clientAddress" (list . $listener) | nindent 0 }}
{{- if eq $listener "internal" }}
# Calls of one request share its id in the logs. With tracing, Envoy would write into it whether the request is sampled.
preserve_external_request_id: true
request_id_extension:
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig
    pack_trace_reason: false
{{- end }}
{{- include "gateway.envoy.requestForm" . | nindent 0 }}
{{- if and (eq $listener "tls") (include "gateway.tls.clients" .) }}
# By default, Envoy removes x-forwarded-client-cert from requests. Here, Envoy sets the header
# itself.
forward_client_cert_details: SANITIZE_SET
set_current_client_cert_details: {subject: true, uri: true, dns: true}
{{- end }}
{{- include "gateway.envoy.clientTimeouts" . | nindent 0 }}
# Envoy does not change the replica's "server" header or add one.
server_header_transformation: PASS_THROUGH
{{- include "gateway.envoy.accessLog" . | nindent 0 }}
{{- if .Values.tracing.enabled }}
{{- include "gateway.envoy.tracing" . | nindent 0 }}
{{- end }}
{{- if has $listener (list "plain" "redirect") }}
{{- include "gateway.envoy.localReplies" . | nindent 0 }}
{{- else }}
local_reply_config: *local_replies
{{- end }}
{{- if eq $listener "redirect" }}
{{- include "gateway.envoy.redirect" . | nindent 0 }}
{{- else }}
{{- include "gateway.envoy.routes" (dict "root" . "listener" $listener) | nindent 0 }}
{{- end }}
http_filters:
{{- include "gateway.envoy.filters" (dict "root" . "listener" $listener) | trim | nindent 0 }}
{{- end -}}
{{- end -}}

{{/* Takes the root context and the listener. */}}
{{- define "gateway.envoy.http1Options" -}}
http_protocol_options:
  {{- with first . }}
  {{- if .Values.listener.http10 }}
  # HTTP/1.0 requests may lack a host (RFC 9112 section 3.2), but routes need one.
  accept_http_10: true
  default_host_for_http_10: unnamed.invalid
  {{- end }}
  {{- end }}
  {{- include "gateway.envoy.ignoredOffers" . | nindent 2 }}
{{- end -}}

{{/*
A server may ignore an offer of another protocol (RFC 9110 section 7.8), which some clients send with each request.
Envoy would reject it with 403. Only WebSocket offers reach the routes, if one of them accepts WebSockets. RE2 has no
negation, so this expression spells out every other word.
*/}}
{{- define "gateway.envoy.ignoredOffers" -}}
{{- $words := ".*" -}}
{{- if and (include "gateway.handshakes" (first .)) (ne (last .) "redirect") -}}
{{- $words = "" -}}
{{- $known := "" -}}
{{- range $letter := splitList "" "websocket" -}}
{{- $words = printf "%s%s([^%s].*)?|" $words $known $letter -}}
{{- $known = print $known $letter -}}
{{- end -}}
{{- $words = printf "(?i)%s%s.+" $words $known -}}
{{- end -}}
ignore_http_11_upgrade: [{safe_regex: {regex: {{ $words | quote }}}}]
{{- end -}}

{{/* Not empty if routes accept WebSocket handshakes or may do so later. */}}
{{- define "gateway.handshakes" -}}
{{- include "gateway.upgrades" . }}{{ include "gateway.dynamic" . -}}
{{- end -}}

{{- define "gateway.envoy.http2Options" -}}
http2_protocol_options:
  {{- if include "gateway.handshakes" . }}
  # Upgrades over HTTP/2 (RFC 8441).
  allow_connect: true
  {{- end }}
  max_concurrent_streams: {{ int .Values.listener.http2Streams }}
  {{- with .Values.listener.http2 }}
  initial_stream_window_size: {{ int .streamWindow }}
  initial_connection_window_size: {{ int .connectionWindow }}
  # Rapid reset (CVE-2023-44487) and floods of control frames.
  stream_reset_burst: {{ int .resetBurst }}
  stream_reset_rate: {{ int .resetRate }}
  max_outbound_control_frames: {{ int .controlFrames }}
  {{- end }}
  {{- if include "common.milliseconds" (list . "listener.http2.ping") | int64 }}
  connection_keepalive:
    interval: {{ include "gateway.duration" (list . "listener.http2.ping") }}
    timeout: {{ include "gateway.duration" (list . "listener.http2.pingTimeout") }}
  {{- end }}
  {{- if .Values.listener.trustedHops }}
  # The proxy in front sends the requests of many clients on one connection, so a malformed request
  # ends only its own stream.
  override_stream_error_on_invalid_http_message: true
  {{- end }}
{{- end -}}

{{/* Takes the root context and the listener. No proxy is in front of the internal one. */}}
{{- define "gateway.envoy.clientAddress" -}}
use_remote_address: true
xff_num_trusted_hops: {{ ternary 0 (int (first .).Values.listener.trustedHops) (eq (last .) "internal") }}
# No client is "internal". Internal clients may set timeouts and retries with x-envoy-* headers, and
# by default Envoy treats every private address as internal. An empty list would select that
# default, so this list contains an address that no client has.
internal_address_config:
  cidr_ranges: [{address_prefix: 255.255.255.255, prefix_len: 32}]
{{- end -}}

{{/*
Ambiguous requests are rejected (RFC 9112 section 11.2, request smuggling), and paths are normalized
before route matching.
*/}}
{{- define "gateway.envoy.requestForm" -}}
normalize_path: true
merge_slashes: true
path_with_escaped_slashes_action: {{ get (dict "reject" "REJECT_REQUEST" "redirect" "UNESCAPE_AND_REDIRECT" "keep" "KEEP_UNCHANGED") .Values.listener.escapedSlashes }}
max_request_headers_kb: {{ int .Values.listener.headers.kib }}
{{- end -}}

{{- define "gateway.envoy.clientTimeouts" -}}
common_http_protocol_options:
  max_headers_count: {{ int .Values.listener.headers.count }}
  # Many servers read x_y and x-y as the same name.
  headers_with_underscores_action: REJECT_REQUEST
  idle_timeout: {{ include "gateway.duration" (list . "listener.timeouts.idle") }}
  {{- with include "gateway.envoy.total" . | int64 }}
  max_stream_duration: {{ div . 1000 }}.{{ mod . 1000 | printf "%03d" }}s
  {{- end }}
  {{- if include "common.milliseconds" (list . "listener.timeouts.age") | int64 }}
  max_connection_duration: {{ include "gateway.duration" (list . "listener.timeouts.age") }}
  max_connection_duration_jitter: {value: {{ int .Values.listener.timeouts.ageJitter }}}
# HTTP/1.1 connections, too, close only after a reply and not during one.
http1_safe_max_connection_duration: true
  {{- end }}
request_headers_timeout: {{ include "gateway.duration" (list . "listener.timeouts.header") }}
request_timeout: {{ include "gateway.duration" (list . "listener.timeouts.request") }}
stream_idle_timeout: {{ include "gateway.duration" (list . "listener.timeouts.stream") }}
{{- end -}}

{{/* Maximum milliseconds for a whole exchange, or 0 without a limit. */}}
{{- define "gateway.envoy.total" -}}
{{- if .Values.listener.timeouts.total -}}
{{- include "common.milliseconds" (list . "listener.timeouts.total") -}}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* It counts bytes as they pass and does not wait for the end of a body. Takes the number of bytes. */}}
{{- define "gateway.envoy.bodyLimit" -}}
- name: envoy.filters.http.body_size_limit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.body_size_limit.v3.BodySizeLimit
    max_request_bytes: {{ int64 . }}
{{- end -}}

{{- define "gateway.envoy.filter.router" -}}
- name: envoy.filters.http.router
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
    # Neither replicas nor clients need x-envoy-* headers, which reveal how the gateway is built.
    suppress_envoy_headers: true
    {{- if not .Values.stats.replies }}
    dynamic_stats: false
    {{- end }}
{{- end -}}
