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

{{/* Annotations of the pods: takes the root context, the configuration, and where metrics are. The
configuration is read once, so its checksum rolls the pods when it changes. */}}
{{- define "common.podAnnotations" -}}
{{- $own := dict "checksum/config" (sha256sum .config) -}}
{{- $scrape := dict
  "prometheus.io/scrape" "true"
  "prometheus.io/port" (toString .port)
  "prometheus.io/path" .path
-}}
{{- merge $own .root.Values.podAnnotations (ternary $scrape dict .root.Values.prometheusAnnotations) | toYaml -}}
{{- end -}}
