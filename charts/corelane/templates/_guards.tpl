{{/*
Values of service and gateway that must suit each other. Each refusal names both and says what to do.
*/}}
{{- define "corelane.guards" -}}
{{- include "corelane.guards.renamed" . -}}
{{- if and .Values.service.enabled .Values.gateway.enabled -}}
{{- include "corelane.guards.idle" . -}}
{{- include "corelane.guards.health" . -}}
{{- include "corelane.guards.loadReports" . -}}
{{- $discovery := include "gateway.discovery" .Subcharts.gateway -}}
{{- if .Values.gateway.routes -}}
{{- /* They name services of any chart, and the server need not be one of them. */ -}}
{{- else if eq $discovery "dns" -}}
{{- include "corelane.guards.address" . -}}
{{- else if eq $discovery "eds" -}}
{{- include "corelane.guards.service" . -}}
{{- end -}}
{{- if .Values.service.tls.secret -}}
{{- fail "service.tls.secret is set, but the gateway connects to replicas without TLS: leave it empty, or set gateway.enabled to false if clients connect to replicas directly" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The chart server of 0.2.0 is now the chart service. */}}
{{- define "corelane.guards.renamed" -}}
{{- $renamed := include "common.renamed" . | fromYaml -}}
{{- $found := dict -}}
{{- range $key, $value := .Values.server -}}
{{- $_ := set $found (printf "server.%s" $key) (printf "service.%s" (get $renamed $key | default $key)) -}}
{{- end -}}
{{- include "common.guards.renamed" (list .Values "" $found) -}}
{{- end -}}

{{- define "corelane.guards.idle" -}}
{{- $gateway := include "common.milliseconds" (list . "gateway.upstream.idleTimeout") | int64 -}}
{{- $idle := include "corelane.idle" . -}}
{{- $server := include "common.duration" (list $idle "service.config.timeouts.idle") | int64 -}}
{{- if or (not $gateway) (ge $gateway $server) -}}
{{- fail (printf "gateway.upstream.idleTimeout (%v) must be shorter than service.config.timeouts.idle (%v): otherwise the server may close a connection while the gateway sends a request on it" .Values.gateway.upstream.idleTimeout $idle) -}}
{{- end -}}
{{- with .Values.gateway.upstream.serverIdleTimeout -}}
{{- if ne . $idle -}}
{{- fail (printf "gateway.upstream.serverIdleTimeout is %v but service.config.timeouts.idle is %v: leave gateway.upstream.serverIdleTimeout empty" . $idle) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The configuration of replicas, without the keys that are null. */}}
{{- define "corelane.config" -}}
{{- (include "service.present" (list "service.config" .Values.service.config) | fromJson).value | default dict | toJson -}}
{{- end -}}

{{/* The idle timeout of replicas: as configured, or the default of the library. */}}
{{- define "corelane.idle" -}}
{{- dig "timeouts" "idle" "75s" (include "corelane.config" . | fromJson) -}}
{{- end -}}

{{/* A draining replica answers a health check with 503, which takes it out at once. */}}
{{- define "corelane.guards.health" -}}
{{- $interval := include "common.milliseconds" (list . "gateway.upstream.health.interval") | int64 -}}
{{- $settle := include "common.milliseconds" (list . "service.drain.settle") | int64 -}}
{{- if ge $interval $settle -}}
{{- fail (printf "gateway.upstream.health.interval (%v) must be shorter than service.drain.settle (%v): otherwise a draining replica stops accepting before the gateway notices" .Values.gateway.upstream.health.interval .Values.service.drain.settle) -}}
{{- end -}}
{{- end -}}

{{/* Without reports the policy is round robin, and says so nowhere. YAML reads a bare off as false. */}}
{{- define "corelane.guards.loadReports" -}}
{{- $off := has (dig "load_reports" "off" (include "corelane.config" . | fromJson) | toString) (list "off" "false") -}}
{{- if and (eq .Values.gateway.upstream.balancing.policy "load-aware") $off -}}
{{- fail "gateway.upstream.balancing.policy is load-aware but service.config.load_reports is off: set service.config.load_reports to text, so that replicas report their load" -}}
{{- end -}}
{{- end -}}

{{- define "corelane.guards.address" -}}
{{- $dns := .Values.gateway.upstream.dns -}}
{{- $ports := .Values.service.ports -}}
{{- range $pair := list (list "port" "traffic") (list "adminPort" "admin") -}}
{{- $theirs := index $pair 0 -}}
{{- $ours := index $pair 1 -}}
{{- if ne (get $dns $theirs | int) (get $ports $ours | int) -}}
{{- fail (printf "gateway.upstream.dns.%s is %d but service.ports.%s is %d: set both to the same port" $theirs (get $dns $theirs | int) $ours (get $ports $ours | int)) -}}
{{- end -}}
{{- end -}}
{{- $service := include "common.fullname" .Subcharts.service -}}
{{- $found := include "gateway.envoy.upstreamHost" .Subcharts.gateway | splitList "." | first -}}
{{- if ne $found $service -}}
{{- fail (printf "the gateway uses the Service %s but the service's Service is %s: set gateway.upstream.dns.hostname to %s.%s.svc.%s." $found $service $service .Release.Namespace $dns.clusterDomain) -}}
{{- end -}}
{{- end -}}

{{- define "corelane.guards.service" -}}
{{- $service := include "common.fullname" .Subcharts.service -}}
{{- $found := include "gateway.agent.service" .Subcharts.gateway -}}
{{- if ne $found $service -}}
{{- fail (printf "the gateway uses the Service %s but the service's Service is %s: set gateway.upstream.eds.service to %s" $found $service $service) -}}
{{- end -}}
{{- end -}}
