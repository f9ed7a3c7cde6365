{{/*
Mutual TLS with replicas. Envoy rereads its certificate and the CA when something is renamed in their folder, as
Kubernetes does for a Secret. Open connections stay, and new connections use the new files.
*/}}

{{/* The sockets of a cluster. Takes the root context and a service, which has an identity, or a policy that the agent
fills in. */}}
{{- define "gateway.envoy.mutual" -}}
{{- $policy := .service.policy -}}
# Health checks on an admin port match the first entry.
transport_socket_matches:
- name: plaintext
  match: {plaintext: true}
  transport_socket:
    name: envoy.transport_sockets.raw_buffer
    typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: {{ ternary "PROTOTYPE_HOSTNAME" (printf "%s.%s.svc" .service.name .service.namespace) (not (not $policy)) | quote }}
    # A resumed session would skip the verification of a replica whose certificate has changed.
    max_session_keys: 0
    common_tls_context:
      # For connections to replicas, Envoy's default maximum is 1.2.
      tls_params: {tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}
      {{- if or (not $policy) $policy.client }}
      tls_certificate_sds_secret_configs:
      - {{ include "gateway.envoy.mutual.source" (list .root "certificate") | nindent 8 | trim }}
      {{- end }}
      combined_validation_context:
        # Matches only the identity. Envoy accepts a certificate if any matcher matches, and pod
        # addresses are reused.
        default_validation_context:
          match_typed_subject_alt_names:
          - {san_type: {{ ternary "URI" "DNS" (contains "://" .service.identity) }}, matcher: {exact: {{ .service.identity | quote }}}}
        validation_context_sds_secret_config:
          {{- if $policy }}
          name: PROTOTYPE_AUTHORITIES
          sds_config: {resource_api_version: V3, path_config_source: {path: PROTOTYPE_FILE}}
          {{- else }}
          {{- include "gateway.envoy.mutual.source" (list .root "ca") | nindent 10 }}
          {{- end }}
{{- end -}}

{{/* Where Envoy finds one of the two secrets, because a file contains only one. Takes the root context and the
name. */}}
{{- define "gateway.envoy.mutual.source" -}}
name: mtls-{{ last . }}
sds_config:
  resource_api_version: V3
  path_config_source: {path: {{ printf "%s/mtls-%s.yaml" ((first .).Values.mtls.files.sds | default "/etc/envoy") (last .) | quote }}}
{{- end -}}

{{/* How health checks connect: to the traffic port like requests, to another port without TLS. Takes the root context
and a service. */}}
{{- define "gateway.envoy.checkedBy" -}}
{{- $root := first . -}}
{{- with last . -}}
{{- $traffic := eq .port .healthPort -}}
{{- if eq (include "gateway.discovery" $root) "static" -}}
{{- $traffic = true -}}
{{- range .endpoints -}}
{{- $traffic = and $traffic (eq (int .port) (int .adminPort)) -}}
{{- end -}}
{{- end -}}
{{- if and .identity (not $traffic) -}}
transport_socket_match_criteria: {plaintext: true}
{{- else if and .identity .health.grpc -}}
tls_options: {alpn_protocols: [h2]}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret in the pod; empty without mutual TLS, and for a local process. */}}
{{- define "gateway.mtls.secret" -}}
{{- if and (include "common.mtls" .) (not .Values.mtls.files.folder) -}}
{{- .Values.mtls.secret | default (printf "%s-mtls" (include "common.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{/* The file from which Envoy learns the location of one of the two. Takes the root context and the name. */}}
{{- define "gateway.envoy.mutual.file" -}}
{{- $folder := (first .).Values.mtls.files.folder | default "/etc/envoy-mtls" -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: mtls-{{ last . }}
  {{- if eq (last .) "ca" }}
  validation_context:
    trusted_ca: {filename: {{ printf "%s/ca.crt" $folder | quote }}}
  {{- else }}
  tls_certificate:
    certificate_chain: {filename: {{ printf "%s/tls.crt" $folder | quote }}}
    private_key: {filename: {{ printf "%s/tls.key" $folder | quote }}}
  {{- end }}
    watched_directory: {path: {{ $folder | quote }}}
{{- end -}}

{{- define "gateway.guards.mtls" -}}
{{- include "common.guards.mtls" . -}}
{{- with .Values.mtls -}}
{{- if and .secret .files.folder -}}
{{- fail (printf "mtls.secret (%s) and mtls.files.folder are both set: use the Secret in a cluster, the folder for a local process" .secret) -}}
{{- end -}}
{{- if ne (empty .files.folder) (empty .files.sds) -}}
{{- fail "mtls.files has only one of folder and sds: set both for a local process, or neither" -}}
{{- end -}}
{{- end -}}
{{- end -}}
