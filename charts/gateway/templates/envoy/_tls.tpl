{{/*
TLS with a certificate from files. Envoy rereads them when something is renamed in their folder, as Kubernetes does for
a Secret, and ignores a pair that does not match.
*/}}

{{/* Takes a list of the root context and the protocols for ALPN. */}}
{{- define "gateway.envoy.tlsContext" -}}
{{- $root := first . -}}
common_tls_context:
  {{- with rest . }}
  alpn_protocols: {{ toJson . }}
  tls_params: {tls_minimum_protocol_version: {{ get (dict "1.2" "TLSv1_2" "1.3" "TLSv1_3") $root.Values.tls.minVersion }}}
  {{- end }}
  tls_certificate_sds_secret_configs:
  - name: ingress
    sds_config:
      resource_api_version: V3
      path_config_source: {path: {{ (include "gateway.tls.paths" $root | fromYaml).sds | quote }}}
  {{- if ne $root.Values.tls.clients.mode "none" }}
  validation_context_sds_secret_config:
    name: clients
    sds_config:
      resource_api_version: V3
      path_config_source: {path: {{ $root.Values.tls.clients.files.sds | default "/etc/envoy/clients.yaml" | quote }}}
  {{- end }}
{{- end -}}

{{/* The file from which Envoy learns the location of the clients' CA. */}}
{{- define "gateway.envoy.clients" -}}
{{- $ca := .Values.tls.clients.files.ca | default "/etc/envoy-clients/ca.crt" -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: clients
  validation_context:
    trusted_ca: {filename: {{ $ca | quote }}}
    watched_directory: {path: {{ dir $ca | quote }}}
{{- end -}}

{{/* Not empty if clients present certificates. */}}
{{- define "gateway.tls.clients" -}}
{{- if and .Values.tls.enabled (ne .Values.tls.clients.mode "none") }}yes{{ end -}}
{{- end -}}

{{/* The location of the files: mounted in the pod, or as set in the values of a local process. */}}
{{- define "gateway.tls.paths" -}}
{{- if .Values.tls.secret -}}
{certificate: /etc/envoy-tls/tls.crt, key: /etc/envoy-tls/tls.key, sds: /etc/envoy/certificate.yaml}
{{- else -}}
{{- .Values.tls.files | toJson -}}
{{- end -}}
{{- end -}}

{{/* The file from which Envoy learns the location of the certificate (secret discovery service). */}}
{{- define "gateway.envoy.certificate" -}}
{{- $paths := include "gateway.tls.paths" . | fromYaml -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: ingress
  tls_certificate:
    certificate_chain: {filename: {{ $paths.certificate | quote }}}
    private_key: {filename: {{ $paths.key | quote }}}
    watched_directory: {path: {{ dir $paths.certificate | quote }}}
{{- end -}}

{{/*
HTTP/3: a UDP listener with the TLS certificate. If a client's address changes, its packets still reach the right worker
through the connection ID, but not if they arrive at another pod.
*/}}
{{- define "gateway.envoy.http3Listener" -}}
- name: ingress_http3
  stat_prefix: ingress
  address: {socket_address: {protocol: UDP, address: {{ .Values.listener.address | quote }}, port_value: {{ .Values.http3.port }}}}
  per_connection_buffer_limit_bytes: {{ int .Values.listener.bufferBytes }}
  udp_listener_config:
    quic_options: {}
    # Reads several packets per system call if the kernel supports it (UDP_GRO).
    downstream_socket_config: {prefer_gro: true}
  filter_chains:
  - transport_socket:
      name: envoy.transport_sockets.quic
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport
        downstream_tls_context:
          {{- include "gateway.envoy.tlsContext" (list .) | nindent 10 }}
    filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        {{- include "gateway.envoy.connectionManager" (dict "root" . "listener" "http3") | nindent 8 }}
{{- end -}}

{{- define "gateway.envoy.http3Options" -}}
http3_protocol_options:
  quic_protocol_options:
    max_concurrent_streams: {{ int .Values.listener.http2Streams }}
    initial_stream_window_size: {{ int .Values.listener.http2.streamWindow }}
    initial_connection_window_size: {{ int .Values.listener.http2.connectionWindow }}
{{- end -}}

{{/* Advertises HTTP/3 to clients (RFC 7838). It is a filter, because all listeners share the same routes. */}}
{{- define "gateway.envoy.altSvc" -}}
{{- $port := .Values.http3.advertisedPort | default .Values.service.httpsPort | int -}}
- name: envoy.filters.http.header_mutation
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
    mutations:
      response_mutations:
      - append:
          header: {key: alt-svc, value: 'h3=":{{ $port }}"; ma={{ include "common.seconds" (list . "http3.maxAge") }}'}
          append_action: OVERWRITE_IF_EXISTS_OR_ADD
{{- end -}}
