{{/*
Replica discovery.
*/}}

{{/* A host name to look up implies DNS. In 0.1.0, which supported only DNS, the name was the only required value. */}}
{{- define "gateway.discovery" -}}
{{- $named := ne (.Values.upstream.dns.hostname | default "") "" -}}
{{- ternary "dns" .Values.upstream.discovery (and (eq .Values.upstream.discovery "eds") $named) -}}
{{- end -}}

{{/* Not empty if the agent also manages clusters and routes, so that Envoy keeps running when they change. */}}
{{- define "gateway.dynamic" -}}
{{- if and (eq (include "gateway.discovery" .) "eds") (include "gateway.routed" .) -}}
yes
{{- end -}}
{{- end -}}

{{/* A file that the agent writes and Envoy subscribes to. Takes its name, in which an underscore distinguishes it from
endpoint files. */}}
{{- define "gateway.envoy.file" -}}
{resource_api_version: V3, path_config_source: {path: {{ include "gateway.agent.folder" . }}/{{ . }}.json}}
{{- end -}}

{{/*
The discovery methods of a service. Each template takes the root context and the service.
*/}}

{{/* The file that the agent writes. Envoy rereads it only after a rename. With `watched_directory`, Envoy would reread
it after each rename in the folder, even of another cluster's file. */}}
{{- define "gateway.envoy.discovery.eds" -}}
{{- if include "gateway.dynamic" .root -}}
# For the agent: the Service that these replicas belong to.
metadata: {filter_metadata: {corelane: {service: {{ include "gateway.service.watched" .service | quote }}}}}
{{ end -}}
type: EDS
eds_cluster_config:
  eds_config:
    path_config_source:
      path: {{ include "gateway.agent.folder" .root }}/{{ .service.cluster }}.json
{{- end -}}

{{- define "gateway.envoy.discovery.static" -}}
type: STATIC
load_assignment:
  cluster_name: {{ .service.cluster }}
  endpoints:
  - lb_endpoints:
    {{- range .service.endpoints }}
    - endpoint:
        address: {socket_address: {address: {{ .address | quote }}, port_value: {{ .port }}}}
        health_check_config: {port_value: {{ .adminPort }}}
    {{- end }}
{{- end -}}

{{/* Strict DNS: each address in the answer is a replica, and a replica whose address is missing is removed. */}}
{{- define "gateway.envoy.discovery.dns" -}}
cluster_type:
  name: envoy.clusters.dns
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
    dns_refresh_rate: {{ include "gateway.duration" (list .root "upstream.dns.refresh") }}
    # Only one address family, because a dual-stack pod has an address of each family and would
    # count twice.
    dns_lookup_family: V4_PREFERRED
load_assignment:
  cluster_name: {{ .service.cluster }}
  endpoints:
  - lb_endpoints:
    - endpoint:
        address: {socket_address: {address: {{ .service.host | quote }}, port_value: {{ .service.port }}}}
        # Applies to every address that the name resolves to.
        health_check_config: {port_value: {{ .service.healthPort }}}
{{- end -}}

{{/* The name ends in a dot, which makes it absolute, so the resolver does not try each search domain first. */}}
{{- define "gateway.envoy.upstreamHost" -}}
{{- $service := include "common.sibling" (list . "server") -}}
{{- $derived := printf "%s.%s.svc.%s." $service .Release.Namespace .Values.upstream.dns.clusterDomain -}}
{{- .Values.upstream.dns.hostname | default $derived -}}
{{- end -}}
