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

{{/*
Values of the database that would lose projects, or let replicas answer differently.
*/}}
{{- define "server.guards.database" -}}
{{- if eq .Values.database.kind "sqlite" -}}
{{- include "server.guards.sqlite.volume" . -}}
{{- include "server.guards.sqlite.replicas" . -}}
{{- else if eq .Values.database.kind "postgres" -}}
{{- include "server.guards.postgres" .Values.database.postgres -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.sqlite.volume" -}}
{{- with .Values.database.sqlite -}}
{{- if and .volume .claim.size -}}
{{- fail "database.sqlite.volume and database.sqlite.claim.size are both set: leave one of them empty" -}}
{{- end -}}
{{- if not (or .volume .claim.size) -}}
{{- fail "database.kind is sqlite, but its file has no volume. Set database.sqlite.claim.size, or set database.sqlite.volume to your own claim, or to emptyDir: {} if projects may be lost with the pod" -}}
{{- end -}}
{{- if and .shared (hasKey .volume "emptyDir") -}}
{{- fail "database.sqlite.shared is true, but each pod has its own emptyDir: set database.sqlite.volume to a persistentVolumeClaim" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A file in WAL mode may be shared by processes of one host only (sqlite.org/wal.html). */}}
{{- define "server.guards.sqlite.replicas" -}}
{{- $sqlite := .Values.database.sqlite -}}
{{- if not $sqlite.shared -}}
{{- $most := include "server.mostReplicas" . | int -}}
{{- if gt $most 1 -}}
{{- $name := ternary "autoscaling.maxReplicas" "replicas" .Values.autoscaling.enabled -}}
{{- fail (printf "database.kind is sqlite but %s is %d: replicas would have different data. Set %s to 1 (with autoscaling also minReplicas), or set database.kind to postgres. If all replicas run on one node and share a volume there, set database.sqlite.shared to true" $name $most $name) -}}
{{- end -}}
{{- if and (not (hasKey $sqlite.volume "emptyDir")) (not (has (toString .Values.rollout.maxSurge) (list "0" "0%"))) -}}
{{- fail (printf "database.kind is sqlite but rollout.maxSurge is %v: a second replica on another node would never get the volume of the first. Set rollout.maxSurge to 0 and rollout.maxUnavailable to 1" .Values.rollout.maxSurge) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "server.guards.postgres" -}}
{{- if not .url -}}
{{- fail "database.kind is postgres but database.postgres.url is empty: set it to the URL of the database, such as postgres://corelane@db.prod:5432/corelane" -}}
{{- end -}}
{{- if or (regexMatch "^[a-z]+://[^/?#@]*:[^/?#]*@" .url) (regexMatch "[?&]password=" .url) -}}
{{- fail "database.postgres.url contains a password, which anyone who can read ConfigMaps could see: put it into a Secret and set database.postgres.password.secret to its name" -}}
{{- end -}}
{{- if not (include "server.urlHosts" .url) -}}
{{- fail "database.postgres.url has no host, but replicas use TCP: set it to a URL such as postgres://corelane@db.prod:5432/corelane" -}}
{{- end -}}
{{- if and .ca.secret .ca.configMap -}}
{{- fail "database.postgres.ca.secret and database.postgres.ca.configMap are both set: leave one of them empty" -}}
{{- end -}}
{{- end -}}
