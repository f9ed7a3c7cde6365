{{/* The maximum and minimum number of pods. */}}
{{- define "common.maxReplicas" -}}
{{- ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled -}}
{{- end -}}

{{- define "common.minReplicas" -}}
{{- ternary .Values.autoscaling.minReplicas .Values.replicas .Values.autoscaling.enabled -}}
{{- end -}}

{{/* The autoscaler's lower bound. During a handover, the autoscaler changes the number and thus becomes its owner. */}}
{{- define "common.autoscaling.least" -}}
{{- with .Values.autoscaling -}}
{{- ternary (add $.Values.replicas 1 | max .minReplicas) .minReplicas .handover -}}
{{- end -}}
{{- end -}}

{{- define "common.autoscaler" -}}
{{- if .Values.autoscaling.enabled -}}
{{- if eq (get .Values.autoscaling "mode") "keda" -}}
{{- include "common.scaledObject" . -}}
{{- else -}}
{{- include "common.horizontalPodAutoscaler" . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "common.horizontalPodAutoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "common.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "common.fullname" . | quote }}
  minReplicas: {{ include "common.autoscaling.least" . }}
  maxReplicas: {{ .Values.autoscaling.maxReplicas }}
  metrics:
    {{- with .Values.autoscaling.cpuPercent }}
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ . }}
    {{- end }}
    {{- with .Values.autoscaling.metrics }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.autoscaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* KEDA's HorizontalPodAutoscaler has the name of the chart's in hpa mode, and KEDA takes over an existing one. */}}
{{- define "common.scaledObject" -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  {{- include "common.metadata" . | nindent 2 }}
  annotations:
    scaledobject.keda.sh/transfer-hpa-ownership: "true"
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "common.fullname" . | quote }}
  minReplicaCount: {{ include "common.autoscaling.least" . }}
  maxReplicaCount: {{ .Values.autoscaling.maxReplicas }}
  pollingInterval: 15
  # If data are missing for a while, KEDA adds replicas up to the minimum, and removes none.
  fallback:
    failureThreshold: 3
    replicas: {{ include "common.autoscaling.least" . }}
    behavior: currentReplicasIfHigher
  advanced:
    horizontalPodAutoscalerConfig:
      name: {{ include "common.fullname" . | quote }}
      {{- with .Values.autoscaling.behavior }}
      behavior:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  triggers:
    {{- $query := printf "max(service:corelane_replicas_required:count{namespace=%q,service=%q})" .Release.Namespace (include "common.fullname" .) }}
    {{- with .Values.autoscaling.keda }}
    # Missing data is an error, never 0.
    {{- $metadata := dict "serverAddress" .prometheus "query" (.query | default $query) "threshold" "1" "ignoreNullValues" "false" }}
    {{- $trigger := dict "type" "prometheus" "metricType" "AverageValue" "metadata" $metadata }}
    - {{- merge $trigger (.trigger | default dict | deepCopy) | toYaml | nindent 6 }}
    {{- end }}
{{- end -}}

{{/* There is no budget if there can be only one pod, because it could not protect anything. */}}
{{- define "common.podDisruptionBudget" -}}
{{- if and .Values.disruptionBudget.enabled (gt (include "common.maxReplicas" . | int) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "common.metadata" . | nindent 2 }}
spec:
  # This does not use minAvailable, which would block a node drain once the autoscaler has reduced
  # the pods to one.
  maxUnavailable: {{ .Values.disruptionBudget.maxUnavailable }}
  # A pod that is not ready serves no requests and must not block the drain of a node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "common.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}
