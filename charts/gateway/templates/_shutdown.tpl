{{/*
Shutdown of a pod. Envoy exits immediately on SIGTERM, so the agent drains it first.
*/}}

{{/* The shutdown key for the settle time. 0.1.0 called it preStop. */}}
{{- define "gateway.shutdown.settleKey" -}}
{{- ternary "preStop" "settle" (hasKey .Values.shutdown "preStop") -}}
{{- end -}}

{{- define "gateway.shutdown.settle" -}}
{{- include "common.milliseconds" (list . (printf "shutdown.%s" (include "gateway.shutdown.settleKey" .))) -}}
{{- end -}}

{{/* Maximum milliseconds from the start of the drain to SIGTERM. */}}
{{- define "gateway.shutdown.deadline" -}}
{{- if .Values.shutdown.deadline -}}
{{- include "common.milliseconds" (list . "shutdown.deadline") -}}
{{- else -}}
{{- $settle := include "gateway.shutdown.settle" . | int64 -}}
{{- add $settle (include "gateway.longestTimeout" . | int64) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.shutdown.graceSeconds" -}}
{{- $deadline := include "gateway.shutdown.deadline" . | int64 -}}
{{- $grace := add $deadline (include "common.milliseconds" (list . "shutdown.margin") | int64) -}}
{{- div (add $grace 999) 1000 -}}
{{- end -}}

{{- define "gateway.shutdown.command" -}}
- /gateway-agent
- drain
- --admin=127.0.0.1:{{ .Values.admin.port }}
- --settle={{ get .Values.shutdown (include "gateway.shutdown.settleKey" .) }}
- --deadline={{ include "gateway.shutdown.deadline" . }}ms
- --log-format=json
# The output of a hook is lost, so it writes to the container's log.
- --log-file=/proc/1/fd/2
{{- end -}}

{{- define "gateway.guards.shutdown" -}}
{{- with .Values.shutdown -}}
{{- $settle := include "gateway.shutdown.settle" $ | int64 -}}
{{- $key := include "gateway.shutdown.settleKey" $ -}}
{{- if not .deadline -}}
{{- range include "gateway.routes" $ | fromJsonArray -}}
{{- if not (or .milliseconds.timeout .milliseconds.idleTimeout) -}}
{{- fail (printf "shutdown.deadline is empty and %s is 0s, so requests may take forever: set shutdown.deadline" (ternary (printf "idleTimeout of the route %s" .name) "upstream.timeout" (hasKey . "idleTimeout"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if lt (include "gateway.shutdown.deadline" $ | int64) $settle -}}
{{- fail (printf "shutdown.deadline (%v) must not be shorter than shutdown.%s (%v), which it includes" .deadline $key (get . $key)) -}}
{{- end -}}
{{- if not (include "common.milliseconds" (list $ "shutdown.margin") | int64) -}}
{{- fail (printf "shutdown.margin is %v: it must be longer than 0s, otherwise the kubelet kills Envoy before the drain reaches its deadline" .margin) -}}
{{- end -}}
{{- end -}}
{{- end -}}
