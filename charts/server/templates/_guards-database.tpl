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
