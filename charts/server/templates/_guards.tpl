{{/*
Values that the schema cannot judge. Each refusal names the value and says what to do.
*/}}
{{- define "server.guards" -}}
{{- include "server.guards.cpus" . -}}
{{- include "server.guards.durations" . -}}
{{- include "server.guards.drain" . -}}
{{- if and .Values.static.volume (not .Values.static.root) -}}
{{- fail "static.volume is set but static.root is empty: set static.root to the folder at which to mount and serve it, such as /srv/static" -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.cpus" -}}
{{- $cpus := toString .Values.cpus -}}
{{- if not (regexMatch "^[1-9][0-9]*$" $cpus) -}}
{{- fail (printf "cpus is %s: give a whole number of CPUs, such as 1 or 2. Only a pod with a whole number gets CPUs of its own, and each of them runs one lane" $cpus) -}}
{{- end -}}
{{- $lanes := toString .Values.lanes | default $cpus -}}
{{- if ne $lanes $cpus -}}
{{- fail (printf "lanes is %s but cpus is %s: a lane is one CPU's worth of server, so set both to the same number or leave lanes empty" $lanes $cpus) -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.durations" -}}
{{- range $table := list "timeouts" "drain" "tls" -}}
{{- range $key, $value := get $.Values.config $table | default dict -}}
{{- if not (and (eq $key "connection_age") (has (toString $value) (list "off" "false"))) -}}
{{- $_ := include "server.milliseconds" (list $ (printf "config.%s.%s" $table $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.drain" -}}
{{- $settle := include "server.milliseconds" (list . "config.drain.settle") | int64 -}}
{{- $deadline := include "server.milliseconds" (list . "config.drain.deadline") | int64 -}}
{{- if gt $settle $deadline -}}
{{- fail (printf "config.drain.settle (%v) must not be longer than config.drain.deadline (%v), which covers it" .Values.config.drain.settle .Values.config.drain.deadline) -}}
{{- end -}}
{{- $grace := include "server.gracePeriod" . | int64 -}}
{{- if le (mul $grace 1000) $deadline -}}
{{- fail (printf "shutdown.gracePeriodSeconds (%d) must be longer than config.drain.deadline (%v): otherwise the kubelet kills a replica that still drains. Raise it, or leave it empty to have it derived" $grace .Values.config.drain.deadline) -}}
{{- end -}}
{{- end -}}
