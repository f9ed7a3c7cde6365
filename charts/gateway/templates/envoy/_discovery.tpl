{{/*
How the replicas are found.
*/}}

{{/* A name to look up means DNS: in 0.1.0, where there was no other way, it was all that had to be set. */}}
{{- define "gateway.discovery" -}}
{{- $named := ne (.Values.upstream.dns.hostname | default "") "" -}}
{{- ternary "dns" .Values.upstream.discovery (and (eq .Values.upstream.discovery "eds") $named) -}}
{{- end -}}

{{/* Not empty if the agent keeps clusters and routes, too, so that Envoy runs on when they change. */}}
{{- define "gateway.dynamic" -}}
{{- if and (eq (include "gateway.discovery" .) "eds") (include "gateway.routed" .) -}}
yes
{{- end -}}
{{- end -}}

{{/* What Envoy subscribes to: a file that the agent keeps. Takes its name, whose underscore tells it from those of
endpoints. */}}
{{- define "gateway.envoy.file" -}}
{resource_api_version: V3, path_config_source: {path: {{ include "gateway.agent.folder" . }}/{{ . }}.json}}
{{- end -}}

{{/*
The ways of one service. Each template takes the root context and the service.
*/}}

{{/* The file that the agent writes. Envoy reads it again only after a rename. With `watched_directory` it would read it
after each rename in the folder, also of the file of another cluster. */}}
{{- define "gateway.envoy.discovery.eds" -}}
{{- if include "gateway.dynamic" .root -}}
# For the agent: the Service whose replicas these are.
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

{{/* Strict DNS: each address of the answer is a replica, and a replica that is no longer there is gone. */}}
{{- define "gateway.envoy.discovery.dns" -}}
cluster_type:
  name: envoy.clusters.dns
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
    dns_refresh_rate: {{ include "gateway.duration" (list .root "upstream.dns.refresh") }}
    # One family only: a dual-stack pod has an address of each and would count twice.
    dns_lookup_family: V4_PREFERRED
load_assignment:
  cluster_name: {{ .service.cluster }}
  endpoints:
  - lb_endpoints:
    - endpoint:
        address: {socket_address: {address: {{ .service.host | quote }}, port_value: {{ .service.port }}}}
        # Holds for every address that the name resolves to.
        health_check_config: {port_value: {{ .service.healthPort }}}
{{- end -}}

{{/* Ends in a dot: an absolute name, which the resolver does not try with each search domain first. */}}
{{- define "gateway.envoy.upstreamHost" -}}
{{- $service := include "common.sibling" (list . "server") -}}
{{- $derived := printf "%s.%s.svc.%s." $service .Release.Namespace .Values.upstream.dns.clusterDomain -}}
{{- .Values.upstream.dns.hostname | default $derived -}}
{{- end -}}
