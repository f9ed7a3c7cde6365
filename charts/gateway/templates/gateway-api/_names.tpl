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
gateway.networking.k8s.io/gateway-name: {{ include "gateway.api.podName" . | quote }}
{{- else -}}
gateway.envoyproxy.io/owning-gateway-name: {{ include "common.fullname" . | quote }}
gateway.envoyproxy.io/owning-gateway-namespace: {{ .Release.Namespace | quote }}
{{- end -}}
{{- end -}}

{{/* The Service of the replicas, by either value that names it; upstream.dns.hostname does so with its
namespace. */}}
{{- define "gateway.api.backend" -}}
{{- $derived := include "gateway.envoy.upstreamHost" . | splitList "." | first -}}
{{- ternary $derived (.Values.upstream.eds.service | default $derived) (ne (.Values.upstream.dns.hostname | default "") "") -}}
{{- end -}}

{{- define "gateway.api.kind" -}}
{{- ternary "GRPCRoute" "HTTPRoute" (eq (.protocol | default "") "grpc") -}}
{{- end -}}

{{/* The name of the object for some names of hosts. */}}
{{- define "gateway.api.routeName" -}}
{{- $name := include "common.fullname" (first .) -}}
{{- $host := first (last .) | replace "*." "any." -}}
{{- ternary $name (printf "%s.%s" $name $host | trunc 253 | trimSuffix ".") (has "*" (last .)) -}}
{{- end -}}

{{/* The names of all objects that have a route. Takes the root context, all hosts and the name of the route. */}}
{{- define "gateway.api.objects" -}}
{{- $root := first . -}}
{{- $name := last . -}}
{{- $found := list -}}
{{- $routes := $root.Values.routes | default (list (dict "name" "")) -}}
{{- range $group := index . 1 -}}
{{- range .routes -}}
{{- if eq (index $routes (int .)).name $name -}}
{{- $found = append $found (include "gateway.api.routeName" (list $root $group.domains)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The rules of a route, each with the end of its name. Calls of gRPC have one method, POST. Where a prefix is
replaced, Gateway API takes one match only, so each method has a rule. */}}
{{- define "gateway.api.rules" -}}
{{- $route := . -}}
{{- $grpc := eq (include "gateway.api.kind" .) "GRPCRoute" -}}
{{- $single := and (.rewrite | default dict).path (not (hasKey .path "exact")) -}}
{{- $rules := list -}}
{{- range $rule := .rules -}}
{{- $end := ternary ".once" "" (and (gt (len $route.rules) 1) (hasKey . "once") (not $grpc)) -}}
{{- $end = ternary ".upgrade" $end (hasKey . "upgrade") -}}
{{- $end = ternary $end (ternary "idempotent" "once" (hasKey . "again")) (ne $route.name "") -}}
{{- if and .again $grpc -}}
{{- else if and $single (gt (len (.methods | default list)) 1) -}}
{{- range .methods -}}
{{- $own := dict "methods" (list .) "suffix" (printf ".%s" (lower .)) -}}
{{- $rules = append $rules (merge $own $rule) -}}
{{- end -}}
{{- else -}}
{{- $rules = append $rules (set . "suffix" $end) -}}
{{- end -}}
{{- end -}}
{{- toJson $rules -}}
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
    name: {{ include "common.fullname" . | quote }}
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
{{- if .Values.routes -}}
{{- include "gateway.guards.api.routes" . -}}
{{- else -}}
{{- include "gateway.guards.api.backend" . -}}
{{- end -}}
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

{{/* What Gateway API or Envoy Gateway has no field for. */}}
{{- define "gateway.guards.api.routes" -}}
{{- $routes := include "gateway.routes" . | fromJsonArray -}}
{{- $services := include "gateway.services" . | fromJson -}}
{{- range $routes -}}
{{- $route := . -}}
{{- range $key := list "bodyBytes" "rateLimit" "jwt" -}}
{{- if hasKey $route $key -}}
{{- fail (printf "route %s has %s, which mode gatewayAPI does not have for a route: remove it, or set mode to envoy" $route.name $key) -}}
{{- end -}}
{{- end -}}
{{- if has (.protocol | default "http1") (list "http2" "auto") -}}
{{- fail (printf "protocol of the route %s is %s, but in mode gatewayAPI the appProtocol of the Service's port says so (kubernetes.io/h2c): remove it, or set mode to envoy" .name .protocol) -}}
{{- end -}}
{{- if eq (.protocol | default "http1") "grpc" -}}
{{- include "gateway.guards.api.grpc" . -}}
{{- end -}}
{{- include "gateway.guards.api.services" (list $services .) -}}
{{- end -}}
{{- range include "gateway.hosts" . | fromJsonArray -}}
{{- $group := . -}}
{{- $kinds := dict -}}
{{- $rules := 0 -}}
{{- range .routes -}}
{{- $route := index $routes (int .) -}}
{{- $_ := set $kinds (include "gateway.api.kind" $route) $route.name -}}
{{- $rules = include "gateway.api.rules" $route | fromJsonArray | len | add $rules -}}
{{- end -}}
{{- if gt (len $kinds) 1 -}}
{{- fail (printf "routes %s (protocol grpc) and %s take the same host, %s, but a host of mode gatewayAPI has GRPCRoutes or HTTPRoutes. Give them different hosts, or set mode to envoy" $kinds.GRPCRoute $kinds.HTTPRoute (first .domains)) -}}
{{- end -}}
{{- if gt $rules 16 -}}
{{- fail (printf "the routes of the host %s have %d rules, but in mode gatewayAPI at most 16 are possible. A route that is retried has two or more. Give them different hosts, or set mode to envoy" (first .domains) $rules) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A GRPCRoute matches a service or one of its methods, and rewrites nothing. */}}
{{- define "gateway.guards.api.grpc" -}}
{{- range $key := list "methods" "rewrite" -}}
{{- if hasKey $ $key -}}
{{- fail (printf "route %s has %s and protocol grpc, for which mode gatewayAPI has no field: remove %s, or set mode to envoy" $.name $key $key) -}}
{{- end -}}
{{- end -}}
{{- $path := .path.exact | default .path.prefix | default "" -}}
{{- $wanted := ternary "^/[^/]+/[^/]+$" "^/[^/]*/?$" (hasKey .path "exact") -}}
{{- if not (regexMatch $wanted $path) -}}
{{- fail (printf "path of the route %s is %s, but in mode gatewayAPI a route with protocol grpc takes path.prefix /SERVICE or path.exact /SERVICE/METHOD. Change it, or set mode to envoy" .name (toJson .path)) -}}
{{- end -}}
{{- end -}}

{{/* The services of a route have one policy. Takes all services and a route. */}}
{{- define "gateway.guards.api.services" -}}
{{- $services := first . -}}
{{- $route := last . -}}
{{- $first := get $services (first $route.services).cluster -}}
{{- range $route.services -}}
{{- $service := get $services .cluster -}}
{{- range $key := list "balancing" "health" "healthPort" -}}
{{- if ne (get $service $key | toJson) (get $first $key | toJson) -}}
{{- fail (printf "services %s and %s of the route %s have different values of %s, but in mode gatewayAPI a route has one: make them equal, or set mode to envoy" (include "gateway.service.name" $first) (include "gateway.service.name" $service) $route.name $key) -}}
{{- end -}}
{{- end -}}
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
