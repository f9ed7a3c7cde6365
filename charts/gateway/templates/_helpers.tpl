{{/* Release X gives X-gateway; releases gateway and X-gateway give their own name. */}}
{{- define "gateway.base" -}}
{{- .Release.Name | trimSuffix "gateway" | trimSuffix "-" -}}
{{- end -}}

{{- define "gateway.fullname" -}}
{{- $derived := list (include "gateway.base" .) "gateway" | compact | join "-" -}}
{{- .Values.fullnameOverride | default $derived -}}
{{- end -}}

{{- define "gateway.selectorLabels" -}}
app.kubernetes.io/name: corelane-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: gateway
app.kubernetes.io/part-of: corelane
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gateway.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}
