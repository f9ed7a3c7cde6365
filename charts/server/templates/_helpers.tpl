{{/* Release X gives X-server; releases server and X-server give their own name. */}}
{{- define "server.fullname" -}}
{{- $base := .Release.Name | trimSuffix "server" | trimSuffix "-" -}}
{{- .Values.fullnameOverride | default (list $base "server" | compact | join "-") -}}
{{- end -}}

{{- define "server.selectorLabels" -}}
app.kubernetes.io/name: corelane-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "server.labels" -}}
{{ include "server.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: server
app.kubernetes.io/part-of: corelane
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "server.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Seconds until the kubelet kills the pod: the drain, and a margin for the process to end. */}}
{{- define "server.gracePeriod" -}}
{{- $deadline := include "server.seconds" (list . "config.drain.deadline") | int64 -}}
{{- $derived := add $deadline (include "server.seconds" (list . "shutdown.margin")) -}}
{{- .Values.shutdown.gracePeriodSeconds | default $derived | int64 -}}
{{- end -}}
