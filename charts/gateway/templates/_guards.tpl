{{/*
Values that the schema cannot judge. Each refusal names the value and says what to do.
*/}}
{{- define "gateway.guards" -}}
{{- include "gateway.guards.cpus" . -}}
{{- include "gateway.guards.discovery" . -}}
{{- include "gateway.guards.timeouts" . -}}
{{- include "gateway.guards.shutdown" . -}}
{{- end -}}

{{- define "gateway.guards.cpus" -}}
{{- if not (regexMatch "^[1-9][0-9]*$" (toString .Values.cpus)) -}}
{{- fail (printf "cpus is %v: give a whole number of CPUs, such as 1 or 2. Only a pod with a whole number gets CPUs of its own, and Envoy runs one worker thread on each" .Values.cpus) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.discovery" -}}
{{- if and (eq .Values.upstream.discovery "static") (not .Values.upstream.endpoints) -}}
{{- fail "upstream.discovery is static but upstream.endpoints is empty: list the address, port and adminPort of each replica" -}}
{{- end -}}
{{- if and (eq .Values.upstream.discovery "dns") .Values.upstream.endpoints -}}
{{- fail "upstream.endpoints is set but upstream.discovery is dns: set upstream.discovery to static, or remove the endpoints" -}}
{{- end -}}
{{- end -}}

{{/* To Envoy, 0s is no time-out at all. */}}
{{- define "gateway.guards.timeouts" -}}
{{- $idle := include "gateway.milliseconds" (list . "upstream.idleTimeout") | int64 -}}
{{- if .Values.upstream.serverIdleTimeout -}}
{{- $server := include "gateway.milliseconds" (list . "upstream.serverIdleTimeout") | int64 -}}
{{- if or (not $idle) (ge $idle $server) -}}
{{- fail (printf "upstream.idleTimeout (%v) must be shorter than the server's timeouts.idle (%v, upstream.serverIdleTimeout): otherwise the server closes a connection just as the gateway sends a request on it" .Values.upstream.idleTimeout .Values.upstream.serverIdleTimeout) -}}
{{- end -}}
{{- end -}}
{{- $connect := include "gateway.milliseconds" (list . "upstream.connectTimeout") | int64 -}}
{{- $reply := include "gateway.milliseconds" (list . "upstream.timeout") | int64 -}}
{{- if and $reply (ge $connect $reply) -}}
{{- fail (printf "upstream.connectTimeout (%v) must be shorter than upstream.timeout (%v), which covers all attempts" .Values.upstream.connectTimeout .Values.upstream.timeout) -}}
{{- end -}}
{{- end -}}
