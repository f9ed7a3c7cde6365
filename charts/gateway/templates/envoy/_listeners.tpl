{{/*
The listeners that clients connect to: without TLS, with TLS, with HTTP/3, and for services. All are counted under the
name "ingress", and all read requests in the same way (_connection-manager.tpl). Limits and timeouts here guard against
clients, those of _upstream.tpl against replicas.
*/}}
{{- define "gateway.envoy.ingress" -}}
{{- include "gateway.envoy.plainListener" . }}
{{- if not (include "gateway.objects.tls" .) }}
{{- include "gateway.envoy.encryptedListeners" . }}
{{- end }}
{{- if .Values.listener.internal.enabled }}
{{ include "gateway.envoy.internalListener" . }}
{{- end }}
{{- end -}}

{{- define "gateway.envoy.encryptedListeners" -}}
{{- if .Values.tls.enabled }}
{{ include "gateway.envoy.tlsListener" . }}
{{- end }}
{{- if .Values.http3.enabled }}
{{ include "gateway.envoy.http3Listener" . }}
{{- end }}
{{- end -}}

{{- define "gateway.envoy.plainListener" -}}
{{- $redirects := and .Values.tls.enabled (eq .Values.tls.plain "redirect") -}}
{{- include "gateway.envoy.clearListener" (dict "root" . "name" "ingress" "port" .Values.listener.port "listener" (ternary "redirect" "plain" $redirects)) }}
{{- end -}}

{{- define "gateway.envoy.internalListener" -}}
{{- include "gateway.envoy.clearListener" (dict "root" . "name" "internal" "port" .Values.listener.internal.port "listener" "internal") }}
{{- end -}}

{{/* A listener without TLS. Takes the root context, a name, a port, and the listener. */}}
{{- define "gateway.envoy.clearListener" -}}
- name: {{ .name }}
  stat_prefix: ingress
  address: {socket_address: {address: {{ .root.Values.listener.address | quote }}, port_value: {{ .port }}}}
  {{- include "gateway.envoy.tcp" (list .root .listener) | nindent 2 }}
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        {{- include "gateway.envoy.connectionManager" (dict "root" .root "listener" .listener) | nindent 8 }}
{{- end -}}

{{- define "gateway.envoy.tlsListener" -}}
- name: ingress_tls
  stat_prefix: ingress
  address: {socket_address: {address: {{ .Values.listener.address | quote }}, port_value: {{ .Values.tls.port }}}}
  {{- include "gateway.envoy.tcp" (list . "tls") | nindent 2 }}
  filter_chains:
  - transport_socket_connect_timeout: {{ include "gateway.duration" (list . "listener.timeouts.handshake") }}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        {{- if ne .Values.tls.clients.mode "none" }}
        require_client_certificate: {{ eq .Values.tls.clients.mode "required" }}
        {{- end }}
        {{- include "gateway.envoy.tlsContext" (list . "h2" "http/1.1") | nindent 8 }}
    filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        {{- include "gateway.envoy.connectionManager" (dict "root" . "listener" "tls") | nindent 8 }}
{{- end -}}

{{/* Settings of every TCP listener: buffers, the accept queue, and the detection of dead connections. By default, Envoy
has one socket per worker (SO_REUSEPORT). Takes the root context and the listener. */}}
{{- define "gateway.envoy.tcp" -}}
{{- $listener := last . -}}
{{- with first . -}}
tcp_backlog_size: {{ int .Values.listener.backlog }}
# TCP_NOTSENT_LOWAT (tcp(7)), which connections inherit: the kernel buffers this many bytes in
# addition to the bytes that it can send. Otherwise, it would buffer up to 4 MiB for a client that
# reads nothing, which a worker takes a millisecond to copy.
socket_options:
- {description: TCP_NOTSENT_LOWAT, level: 6, name: 25, int_value: 65536, state: STATE_PREBIND}
{{- include "gateway.envoy.buffers" . | nindent 0 }}
{{- if .Values.listener.keepalive.probes }}
tcp_keepalive:
  keepalive_time: {{ include "common.seconds" (list . "listener.keepalive.after") }}
  keepalive_interval: {{ include "common.seconds" (list . "listener.keepalive.interval") }}
  keepalive_probes: {{ int .Values.listener.keepalive.probes }}
{{- end }}
{{- if and .Values.listener.proxyProtocol (ne $listener "internal") }}
listener_filters:
- name: envoy.filters.listener.proxy_protocol
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol
{{- end }}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.buffers" -}}
per_connection_buffer_limit_bytes: {{ int .Values.listener.bufferBytes }}
per_connection_buffer_high_watermark_timeout: {{ include "gateway.duration" (list . "listener.timeouts.buffer") }}
{{- end -}}

{{/*
The only access to the admin interface from outside, for GET requests to a few paths that Prometheus and the kubelet
need. All other paths change or reveal something.
*/}}
{{- define "gateway.envoy.statsListener" -}}
- name: stats
  stat_prefix: stats
  address: {socket_address: {address: {{ .Values.stats.address | quote }}, port_value: {{ .Values.stats.port }}}}
  # Probes and scrapes must work even when clients have used up the connection limit or the memory.
  ignore_global_conn_limit: true
  bypass_overload_manager: true
  per_connection_buffer_limit_bytes: 32768
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: stats
        server_header_transformation: PASS_THROUGH
        generate_request_id: false
        common_http_protocol_options: {idle_timeout: 120s}
        http_protocol_options: {ignore_http_11_upgrade: [{safe_regex: {regex: ".*"}}]}
        request_headers_timeout: 5s
        request_timeout: 10s
        local_reply_config: *local_replies
        route_config:
          name: stats
          virtual_hosts:
          - name: admin
            domains: ["*"]
            routes:
            {{- range list "/stats/prometheus" "/ready" "/live" }}
            - match:
                path: {{ . }}
                headers: [{name: ":method", string_match: {exact: GET}}]
              {{- if eq . "/live" }}
              # This is not /ready, which also fails during a drain. The main thread answers this
              # path as long as it is running.
              route: {cluster: admin, timeout: 10s, prefix_rewrite: /listeners}
              {{- else }}
              route: {cluster: admin, timeout: 10s}
              {{- end }}
            {{- end }}
            - match: {prefix: /}
              direct_response: {status: 404}
        http_filters:
        {{- include "gateway.envoy.filter.router" . | nindent 8 }}
{{- end -}}

{{- define "gateway.envoy.adminCluster" -}}
- name: admin
  type: STATIC
  connect_timeout: 0.250s
  load_assignment:
    cluster_name: admin
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {socket_address: {address: 127.0.0.1, port_value: {{ .Values.admin.port }}}}
{{- end -}}
