{{/* The name of a dashboard's ConfigMap. Takes the root context and the path. */}}
{{- define "monitoring.dashboard" -}}
{{ include "common.fullname" (first .) }}-dashboard-{{ last . | base | trimSuffix ".json" | trimPrefix "corelane-" }}
{{- end -}}
