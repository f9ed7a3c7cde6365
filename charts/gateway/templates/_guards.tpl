{{/*
Values that the schema cannot judge. Each refusal names the value and says what to do.
*/}}
{{- define "gateway.guards" -}}
{{- include "common.guards" . -}}
{{- include "gateway.guards.discovery" . -}}
{{- include "gateway.guards.balancing" . -}}
{{- include "gateway.guards.timeouts" . -}}
{{- include "gateway.guards.ports" . -}}
{{- include "gateway.guards.service" . -}}
{{- include "gateway.guards.account" . -}}
{{- include "gateway.guards.shutdown" . -}}
{{- include "gateway.guards.agent" . -}}
{{- include "gateway.guards.listener" . -}}
{{- include "gateway.guards.tls" . -}}
{{- include "gateway.guards.jwt" . -}}
{{- include "gateway.guards.overload" . -}}
{{- include "gateway.guards.tracing" . -}}
{{- include "gateway.guards.workers" . -}}
{{- include "gateway.guards.api" . -}}
{{- end -}}

{{- define "gateway.guards.discovery" -}}
{{- if and (eq .Values.upstream.discovery "static") (not .Values.upstream.endpoints) -}}
{{- fail "upstream.discovery is static but upstream.endpoints is empty: list the address, port and adminPort of each replica" -}}
{{- end -}}
{{- if and (ne .Values.upstream.discovery "static") .Values.upstream.endpoints -}}
{{- fail (printf "upstream.endpoints is set but upstream.discovery is %s: set upstream.discovery to static, or remove the endpoints" .Values.upstream.discovery) -}}
{{- end -}}
{{- end -}}

{{/* Envoy treats 0s as no timeout. */}}
{{- define "gateway.guards.timeouts" -}}
{{- $idle := include "common.milliseconds" (list . "upstream.idleTimeout") | int64 -}}
{{- if .Values.upstream.serverIdleTimeout -}}
{{- $server := include "common.milliseconds" (list . "upstream.serverIdleTimeout") | int64 -}}
{{- if or (not $idle) (ge $idle $server) -}}
{{- fail (printf "upstream.idleTimeout (%v) must be shorter than the server's timeouts.idle (%v, upstream.serverIdleTimeout): otherwise the server may close a connection while the gateway sends a request on it" .Values.upstream.idleTimeout .Values.upstream.serverIdleTimeout) -}}
{{- end -}}
{{- end -}}
{{- $connect := include "common.milliseconds" (list . "upstream.connectTimeout") | int64 -}}
{{- $reply := include "common.milliseconds" (list . "upstream.timeout") | int64 -}}
{{- if and $reply (ge $connect $reply) -}}
{{- fail (printf "upstream.connectTimeout (%v) must be shorter than upstream.timeout (%v), which covers all attempts" .Values.upstream.connectTimeout .Values.upstream.timeout) -}}
{{- end -}}
{{- end -}}

{{/* A listener on loopback is a local process, to which limits and sysctls of pods mean nothing. */}}
{{- define "gateway.guards.ports" -}}
{{- $ports := list . "listener.port" "stats.port" "admin.port" -}}
{{- if .Values.tls.enabled -}}
{{- $ports = append $ports "tls.port" -}}
{{- end -}}
{{- if eq (include "gateway.discovery" .) "eds" -}}
{{- $ports = append $ports "agent.port" -}}
{{- end -}}
{{- include "common.guards.samePorts" $ports -}}
{{- /* By UDP, which may have the number of a TCP port. */ -}}
{{- if .Values.http3.enabled -}}
{{- $ports = append $ports "http3.port" -}}
{{- end -}}
{{- if not (has .Values.listener.address (list "127.0.0.1" "::1")) -}}
{{- include "common.guards.lowPorts" $ports -}}
{{- include "gateway.guards.portRange" $ports -}}
{{- end -}}
{{- end -}}

{{/* The kernel gives the ports of the range to connections that Envoy opens; a listener that finds its
port taken does not start. */}}
{{- define "gateway.guards.portRange" -}}
{{- with get (first .).Values.sysctls "net.ipv4.ip_local_port_range" -}}
{{- $range := splitList " " . -}}
{{- range $name := rest $ -}}
{{- $port := list (first $) $name | include "common.port" | int -}}
{{- if and (ge $port (index $range 0 | int)) (le $port (index $range 1 | int)) -}}
{{- fail (printf "%s (%d) is within net.ipv4.ip_local_port_range of sysctls (%s), which the kernel uses for connections to replicas: choose a port outside of it, or change the range" $name $port (join " " $range)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The default account is shared by all pods of the namespace. */}}
{{- define "gateway.guards.account" -}}
{{- if eq .Values.mode "envoy" -}}
{{- if and (eq (include "gateway.discovery" .) "eds") .Values.agent.rbac (eq (include "common.serviceAccountName" .) "default") -}}
{{- fail "the service account is default, so all pods of the namespace would get the agent's Role. Set serviceAccount.name, or set agent.rbac to false and grant the permissions yourself, or set upstream.discovery to dns" -}}
{{- end -}}
{{- if and .Values.upstream.eds.service (ne (include "gateway.discovery" .) "eds") -}}
{{- fail (printf "upstream.eds.service is %s but replicas are found by %s: remove upstream.eds.service, or %s" .Values.upstream.eds.service (include "gateway.discovery" .) (ternary "upstream.dns.hostname" "set upstream.discovery to eds" (ne .Values.upstream.dns.hostname ""))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.service" -}}
{{- if and .Values.service.httpsNodePort (or (eq .Values.service.type "ClusterIP") (not .Values.tls.enabled)) -}}
{{- fail (printf "service.httpsNodePort is %v, which requires tls.enabled and service.type NodePort or LoadBalancer: set both, or remove the port" .Values.service.httpsNodePort) -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail (printf "service.nodePort is %v but service.type is ClusterIP: set service.type to NodePort or LoadBalancer, or remove the port" .Values.service.nodePort) -}}
{{- end -}}
{{- end -}}
