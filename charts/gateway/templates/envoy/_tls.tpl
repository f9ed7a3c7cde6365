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
