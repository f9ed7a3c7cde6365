{{/*
TLS with a certificate from files. Envoy reads them again when something is renamed in their folder, as
Kubernetes does with the folder of a Secret; a pair that does not fit is not taken.
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

{{/* The file that names the CA of clients to Envoy. */}}
{{- define "gateway.envoy.clients" -}}
{{- $ca := .Values.tls.clients.files.ca | default "/etc/envoy-clients/ca.crt" -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: clients
  validation_context:
    trusted_ca: {filename: {{ $ca | quote }}}
    watched_directory: {path: {{ dir $ca | quote }}}
{{- end -}}

{{/* Not empty if clients show certificates. */}}
{{- define "gateway.tls.clients" -}}
{{- if and .Values.tls.enabled (ne .Values.tls.clients.mode "none") }}yes{{ end -}}
{{- end -}}

{{/* Where the files are: as mounted in the pod, or as the values of a local process say. */}}
{{- define "gateway.tls.paths" -}}
{{- if .Values.tls.secret -}}
{certificate: /etc/envoy-tls/tls.crt, key: /etc/envoy-tls/tls.key, sds: /etc/envoy/certificate.yaml}
{{- else -}}
{{- .Values.tls.files | toJson -}}
{{- end -}}
{{- end -}}

{{/* The file that names the certificate to Envoy: its secret discovery service. */}}
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
HTTP/3: a UDP listener with the certificate of TLS. Packets of a connection that changes its address find
their worker by the connection's ID, but not another pod.
*/}}
{{- define "gateway.envoy.http3Listener" -}}
- name: ingress_http3
  stat_prefix: ingress
  address: {socket_address: {protocol: UDP, address: {{ .Values.listener.address | quote }}, port_value: {{ .Values.http3.port }}}}
  per_connection_buffer_limit_bytes: {{ int .Values.listener.bufferBytes }}
  udp_listener_config:
    quic_options: {}
    # Several packets per system call, where the kernel can (UDP_GRO).
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

{{/* What tells clients that there is HTTP/3 (RFC 7838). A filter, because the routes are those of all listeners. */}}
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
