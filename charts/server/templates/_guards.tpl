{{/*
Values that the schema cannot judge. Each refusal names the value and says what to do.
*/}}
{{- define "server.guards" -}}
{{- include "common.guards" . -}}
{{- include "server.guards.lanes" . -}}
{{- include "server.guards.durations" . -}}
{{- include "server.guards.drain" . -}}
{{- include "server.guards.environment" . -}}
{{- include "server.guards.database" . -}}
{{- list . "ports.traffic" "ports.admin" | include "common.guards.samePorts" -}}
{{- list . "ports.traffic" "ports.admin" | include "common.guards.lowPorts" -}}
{{- if and .Values.static.volume (not .Values.static.root) -}}
{{- fail "static.volume is set but static.root is empty: set static.root to the folder where it is mounted and served, such as /srv/static" -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.lanes" -}}
{{- $cpus := toString .Values.cpus -}}
{{- $lanes := toString .Values.lanes | default $cpus -}}
{{- if ne $lanes $cpus -}}
{{- fail (printf "lanes is %s but cpus is %s: each lane needs one CPU. Set both to the same number or leave lanes empty" $lanes $cpus) -}}
{{- end -}}
{{- if and (not .Values.exclusive) (has (toString .Values.pin) (list "on" "true")) -}}
{{- fail "pin is on but exclusive is false: the lanes of all replicas of a node would be pinned to the same CPUs. Set pin to auto, or exclusive to true" -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.durations" -}}
{{- if not (has (toString .Values.config.park_after) (list "off" "false")) -}}
{{- $_ := include "common.milliseconds" (list . "config.park_after") -}}
{{- end -}}
{{- $tables := pick .Values.config "timeouts" "drain" "tls" "auth" -}}
{{- $_ := set $tables "database" (pick .Values.config.database "wait" "connect_timeout" "statement_timeout") -}}
{{- $_ := set $tables "otlp" (pick .Values.config.otlp "timeout") -}}
{{- range $table, $values := $tables -}}
{{- range $key, $value := $values | default dict -}}
{{- if not (and (eq $key "connection_age") (has (toString $value) (list "off" "false"))) -}}
{{- $_ := include "common.milliseconds" (list $ (printf "config.%s.%s" $table $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.drain" -}}
{{- $settle := include "common.milliseconds" (list . "config.drain.settle") | int64 -}}
{{- $deadline := include "common.milliseconds" (list . "config.drain.deadline") | int64 -}}
{{- if gt $settle $deadline -}}
{{- fail (printf "config.drain.settle (%v) must not be longer than config.drain.deadline (%v), which includes it" .Values.config.drain.settle .Values.config.drain.deadline) -}}
{{- end -}}
{{- $grace := include "server.gracePeriod" . | int64 -}}
{{- if le (mul $grace 1000) $deadline -}}
{{- fail (printf "shutdown.gracePeriodSeconds (%d) must be longer than config.drain.deadline (%v): otherwise the kubelet kills a replica before it has drained. Increase it, or leave it empty to derive it" $grace .Values.config.drain.deadline) -}}
{{- end -}}
{{- end -}}

{{/* A setting in the environment would win over the file, and over every check of this chart. */}}
{{- define "server.guards.environment" -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "CORELANE_" .name -}}
{{- fail (printf "extraEnv has %s: settings of the server belong in config. Other variables must not begin with CORELANE_" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
