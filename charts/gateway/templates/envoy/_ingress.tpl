{{/*
The listener that clients connect to. Limits and time-outs here guard against clients, those of
_upstream.tpl against replicas.
*/}}
{{- define "gateway.envoy.ingress" -}}
- name: ingress
  stat_prefix: ingress
  address: {socket_address: {address: {{ .Values.listener.address | quote }}, port_value: {{ .Values.listener.port }}}}
  per_connection_buffer_limit_bytes: {{ int .Values.listener.bufferBytes }}
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: ingress
        # HTTP/1.1, or HTTP/2 when the connection begins with its preface (h2c by prior knowledge).
        codec_type: AUTO
        {{- include "gateway.envoy.clientAddress" . | nindent 8 }}
        {{- include "gateway.envoy.requestForm" . | nindent 8 }}
        {{- include "gateway.envoy.clientTimeouts" . | nindent 8 }}
        {{- if .Values.listener.http10 }}
        # HTTP/1.0 need not name a host (RFC 9112 section 3.2), but routes need one.
        http_protocol_options: {accept_http_10: true, default_host_for_http_10: unnamed.invalid}
        {{- end }}
        http2_protocol_options:
          max_concurrent_streams: {{ int .Values.listener.http2Streams }}
          # Envoy's edge guide: 64 KiB per stream, 1 MiB per connection; the defaults are 16 and 24 MiB.
          initial_stream_window_size: 65536
          initial_connection_window_size: 1048576
        # Replies keep the replica's own "server" header, or none.
        server_header_transformation: PASS_THROUGH
        {{- include "gateway.envoy.accessLog" . | nindent 8 }}
        {{- include "gateway.envoy.localReplies" . | nindent 8 }}
        {{- include "gateway.envoy.routes" . | nindent 8 }}
        http_filters:
        {{- include "gateway.envoy.routerFilter" . | nindent 8 }}
{{- end -}}

{{- define "gateway.envoy.clientAddress" -}}
use_remote_address: true
xff_num_trusted_hops: {{ int .Values.listener.trustedHops }}
# No client is "internal": Envoy lets those set time-outs and retries by x-envoy-* headers, and takes
# every private address for one. An empty list would mean that default, so this names an address that
# no client has.
internal_address_config:
  cidr_ranges: [{address_prefix: 255.255.255.255, prefix_len: 32}]
{{- end -}}

{{/*
One reading of a request for everybody behind: what could be read in two ways is refused (RFC 9112
section 11.2, request smuggling), and paths are normal before routes look at them.
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
request_headers_timeout: {{ include "gateway.duration" (list . "listener.timeouts.header") }}
request_timeout: {{ include "gateway.duration" (list . "listener.timeouts.request") }}
stream_idle_timeout: {{ include "gateway.duration" (list . "listener.timeouts.stream") }}
{{- end -}}

{{- define "gateway.envoy.routerFilter" -}}
- name: envoy.filters.http.router
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
    # Neither replicas nor clients need x-envoy-* headers; they tell how the gateway is built.
    suppress_envoy_headers: true
{{- end -}}
