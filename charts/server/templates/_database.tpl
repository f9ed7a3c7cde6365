{{/*
Where projects are kept: the server's settings for it, its volumes, and whom the replicas must reach.
*/}}
{{- define "server.database.config" -}}
{{- with .Values.database -}}
{{- if eq .kind "sqlite" -}}
path: /var/lib/corelane/projects.db
{{- else if eq .kind "postgres" -}}
kind: postgres
url: {{ .postgres.url | quote }}
{{- if .postgres.password.secret }}
password_file: /etc/corelane-database/password
{{- end }}
{{- if or .postgres.ca.secret .postgres.ca.configMap }}
ca_file: /etc/corelane-database/ca.crt
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether there is anything to mount of PostgreSQL. */}}
{{- define "server.database.secrets" -}}
{{- with .Values.database -}}
{{- if and (eq .kind "postgres") (or .postgres.password.secret .postgres.ca.secret .postgres.ca.configMap) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- define "server.database.volumeMounts" -}}
{{- if eq .Values.database.kind "sqlite" }}
- name: database
  mountPath: /var/lib/corelane
{{- end }}
{{- if include "server.database.secrets" . }}
- name: database
  mountPath: /etc/corelane-database
  readOnly: true
{{- end }}
{{- end -}}

{{- define "server.database.volumes" -}}
{{- with .Values.database }}
{{- if eq .kind "sqlite" }}
- name: database
  {{- if .sqlite.claim.size }}
  persistentVolumeClaim:
    claimName: {{ include "server.database.claim" $ }}
  {{- else }}
  {{- toYaml .sqlite.volume | nindent 2 }}
  {{- end }}
{{- end }}
{{- if include "server.database.secrets" $ }}
- name: database
  projected:
    sources:
      {{- with .postgres.password }}
      {{- if .secret }}
      - secret:
          name: {{ .secret | quote }}
          items: [{key: {{ .key | quote }}, path: password}]
      {{- end }}
      {{- end }}
      {{- with .postgres.ca }}
      {{- if or .secret .configMap }}
      - {{ ternary "secret" "configMap" (ne .secret "") }}:
          name: {{ .secret | default .configMap | quote }}
          items: [{key: {{ .key | quote }}, path: ca.crt}]
      {{- end }}
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "server.database.claim" -}}
{{ include "common.fullname" . }}-database
{{- end -}}

{{/* The maximum number of replicas, without the additional ones of a rollout. */}}
{{- define "server.mostReplicas" -}}
{{- with .Values -}}{{ ternary .autoscaling.maxReplicas .replicas .autoscaling.enabled }}{{- end -}}
{{- end -}}

{{/* The hosts of a URL with their ports: PostgreSQL takes several, separated by commas. */}}
{{- define "server.urlHosts" -}}
{{- regexReplaceAll "^[a-z]+://([^/?#]*@)?([^/?#]*).*$" . "${2}" -}}
{{- end -}}

{{/* Ports of a URL as a JSON list. Takes the URL and the port of its scheme. */}}
{{- define "server.urlPorts" -}}
{{- $ports := list -}}
{{- range include "server.urlHosts" (index . 0) | splitList "," -}}
{{- $ports = regexFind ":[0-9]+$" . | trimPrefix ":" | default (index $ 1) | int | append $ports -}}
{{- end -}}
{{- uniq $ports | toJson -}}
{{- end -}}

{{/* Not empty where a host of a URL is a name, which DNS must tell. */}}
{{- define "server.urlHasName" -}}
{{- range include "server.urlHosts" . | splitList "," -}}
{{- if not (regexMatch "^([0-9.]+|\\[.*\\])(:[0-9]+)?$" .) -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rules of a NetworkPolicy for PostgreSQL, the collector of spans, and their names. */}}
{{- define "server.network.egress" -}}
{{- $names := "" -}}
{{- if eq .Values.database.kind "postgres" }}
{{- $url := .Values.database.postgres.url -}}
{{- $names = include "server.urlHasName" $url }}
# PostgreSQL.
- {{ include "common.network.ports" (include "server.urlPorts" (list $url 5432) | fromJsonArray) | nindent 2 | trim }}
  {{- with .Values.networkPolicy.database }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- with .Values.config.otlp.endpoint }}
{{- $names = $names | default (include "server.urlHasName" .) }}
# Spans.
- {{ include "common.network.ports" (include "server.urlPorts" (list . 80) | fromJsonArray) | nindent 2 | trim }}
  {{- with $.Values.networkPolicy.spans }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if $names }}
{{ include "common.network.names" . }}
{{- end }}
{{- with .Values.networkPolicy.egress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
