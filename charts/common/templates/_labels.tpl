{{/* What runs in the pods. A chart with several kinds of pods renders each with a context that has an App. */}}
{{- define "common.app" -}}
{{- if .App }}{{ .App }}{{ else }}corelane-{{ .Chart.Name }}{{ end -}}
{{- end -}}

{{/* These two must never change: a Deployment's selector is immutable. */}}
{{- define "common.selectorLabels" -}}
app.kubernetes.io/name: {{ include "common.app" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of an object. What the chart itself sets wins. */}}
{{- define "common.labels" -}}
{{- $own := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/component" (.App | default .Chart.Name)
  "app.kubernetes.io/part-of" "corelane"
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
-}}
{{- merge (include "common.selectorLabels" . | fromYaml) $own .Values.labels | toYaml -}}
{{- end -}}

{{/* Labels of a pod: without version and chart, which would roll the pods of every new release. */}}
{{- define "common.podLabels" -}}
{{- merge (include "common.selectorLabels" . | fromYaml) .Values.podLabels .Values.labels | toYaml -}}
{{- end -}}

{{- define "common.metadata" -}}
name: {{ include "common.fullname" . }}
labels:
  {{- include "common.labels" . | nindent 2 }}
{{- end -}}
