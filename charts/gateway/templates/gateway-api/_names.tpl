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

{{/*
Values that mode gatewayAPI cannot have and whose user would miss them. The others are in
gateway/gateway-api.md.
*/}}
{{- define "gateway.guards.api" -}}
{{- if eq .Values.mode "gatewayAPI" -}}
{{- if eq .Values.upstream.discovery "static" -}}
{{- fail "upstream.discovery is static, but in mode gatewayAPI Envoy Gateway discovers replicas by their Service: set upstream.discovery to eds or dns, or mode to envoy" -}}
{{- end -}}
{{- include "gateway.guards.api.backend" . -}}
{{- include "gateway.guards.api.listener" . -}}
{{- include "gateway.guards.api.edge" . -}}
{{- end -}}
{{- end -}}

{{/* A route may only lead to a Service of another namespace where that namespace grants it. */}}
{{- define "gateway.guards.api.backend" -}}
{{- $name := include "gateway.envoy.upstreamHost" . | trimSuffix "." -}}
{{- $parts := splitList "." $name -}}
{{- if or (lt (len $parts) 3) (ne (index $parts 1 | default "") .Release.Namespace) (ne (index $parts 2 | default "") "svc") -}}
{{- fail (printf "upstream.dns.hostname is %s, but in mode gatewayAPI it must name a Service of the namespace %s, as in replicas.%s.svc.cluster.local." $name .Release.Namespace .Release.Namespace) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.api.listener" -}}
{{- if has .Values.listener.address (list "127.0.0.1" "::1") -}}
{{- fail (printf "listener.address is %s, but the pods of Envoy Gateway listen on every address: remove it, or set mode to envoy" .Values.listener.address) -}}
{{- end -}}
{{- if has (int .Values.service.port) (list 18000 18001 19000 19001 19002 19003) -}}
{{- fail (printf "service.port is %d, which Envoy Gateway uses itself in mode gatewayAPI: choose another port, such as 80" (int .Values.service.port)) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.api.edge" -}}
{{- if and .Values.tls.enabled (not .Values.tls.secret) -}}
{{- fail "tls.files has a certificate, but in mode gatewayAPI Envoy Gateway reads it from a Secret: set tls.secret, or set mode to envoy" -}}
{{- end -}}
{{- if .Values.authentication.jwt.enabled -}}
{{- fail "authentication.jwt.enabled is true, but in mode gatewayAPI your own SecurityPolicy checks tokens: disable it, or set mode to envoy" -}}
{{- end -}}
{{- if and .Values.http3.enabled .Values.http3.advertisedPort (ne (int .Values.http3.advertisedPort) (int .Values.service.httpsPort)) -}}
{{- fail (printf "http3.advertisedPort is %v, but in mode gatewayAPI Envoy Gateway advertises service.httpsPort (%d): leave it empty, or set mode to envoy" .Values.http3.advertisedPort (int .Values.service.httpsPort)) -}}
{{- end -}}
{{- if and .Values.tracing.enabled (ne .Values.tracing.protocol "grpc") -}}
{{- fail (printf "tracing.protocol is %s, but in mode gatewayAPI Envoy Gateway supports only grpc: set it to grpc with the matching port of the collector, or set mode to envoy" .Values.tracing.protocol) -}}
{{- end -}}
{{- end -}}
