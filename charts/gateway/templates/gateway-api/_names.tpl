{{/*
Names and places in mode gatewayAPI. Envoy Gateway makes the pods, their Deployment and the Service, in its
own namespace or, with its deploy type GatewayNamespace, next to the Gateway.
*/}}

{{- define "gateway.api.className" -}}
{{- .Values.gatewayAPI.className | default (include "gateway.api.ownClass" .) -}}
{{- end -}}

{{/* A class belongs to no namespace, so its name says which one it is of. */}}
{{- define "gateway.api.ownClass" -}}
{{- printf "%s-%s" .Release.Namespace (include "common.fullname" .) -}}
{{- end -}}

{{- define "gateway.api.podNamespace" -}}
{{- ternary .Release.Namespace .Values.gatewayAPI.controllerNamespace (eq .Values.gatewayAPI.deploy "GatewayNamespace") -}}
{{- end -}}

{{/* Of the Deployment and of the Service. In the namespace of Envoy Gateway are those of all releases. */}}
{{- define "gateway.api.podName" -}}
{{- ternary (include "common.fullname" .) (include "gateway.api.ownClass" .) (eq .Values.gatewayAPI.deploy "GatewayNamespace") | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What Envoy Gateway writes on the pods. */}}
{{- define "gateway.api.podSelector" -}}
{{- if eq .Values.gatewayAPI.deploy "GatewayNamespace" -}}
gateway.networking.k8s.io/gateway-name: {{ include "gateway.api.podName" . }}
{{- else -}}
gateway.envoyproxy.io/owning-gateway-name: {{ include "common.fullname" . }}
gateway.envoyproxy.io/owning-gateway-namespace: {{ .Release.Namespace }}
{{- end -}}
{{- end -}}

{{/* The Service of the replicas, by either value that names it; upstream.dns.hostname does so with its
namespace. */}}
{{- define "gateway.api.backend" -}}
{{- $derived := include "gateway.envoy.upstreamHost" . | splitList "." | first -}}
{{- ternary $derived (.Values.upstream.eds.service | default $derived) (ne .Values.upstream.dns.hostname "") -}}
{{- end -}}

{{/* A duration as Gateway API takes it: 1s500ms, no fractions (GEP-2257). Takes a list of the root context
and the dotted name of a value. */}}
{{- define "gateway.api.duration" -}}
{{- include "gateway.api.milliseconds" (include "common.milliseconds" . | int64) -}}
{{- end -}}

{{- define "gateway.api.milliseconds" -}}
{{- $milliseconds := int64 . -}}
{{- $seconds := div $milliseconds 1000 -}}
{{- $rest := mod $milliseconds 1000 -}}
{{- if or $seconds (not $rest) }}{{ $seconds }}s{{ end }}{{ if $rest }}{{ $rest }}ms{{ end -}}
{{- end -}}

{{/* What a policy for the whole Gateway begins with. */}}
{{- define "gateway.api.targetGateway" -}}
targetRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: {{ include "common.fullname" . }}
{{- end -}}
