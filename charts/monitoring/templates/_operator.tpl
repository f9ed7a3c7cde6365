{{/* Metadata of an object for the operator. Takes the root context and the ending of its name. */}}
{{- define "monitoring.operator.metadata" -}}
{{- $root := first . -}}
name: {{ include "monitoring.name" . }}
labels:
  {{- merge (include "common.labels" $root | fromYaml) $root.Values.operator.labels | toYaml | nindent 2 }}
{{- end -}}
