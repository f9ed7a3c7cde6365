{{/*
Parts of a Deployment that stand above its pods.
*/}}

{{/* A number of replicas here would undo what the autoscaler decided. */}}
{{- define "common.deployment.rollout" -}}
{{- if not .Values.autoscaling.enabled -}}
replicas: {{ .Values.replicas }}
{{ end -}}
revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
minReadySeconds: {{ .Values.minReadySeconds }}
selector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    {{- toYaml .Values.rollout | nindent 4 }}
{{- end -}}

{{/* Annotations of the pods: takes the root context, the configuration, and where metrics are. */}}
{{- define "common.podAnnotations" -}}
# The configuration is read once: a change rolls the pods.
checksum/config: {{ .config | sha256sum }}
{{- if .root.Values.prometheusAnnotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
prometheus.io/path: {{ .path }}
{{- end }}
{{- with .root.Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
