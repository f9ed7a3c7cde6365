{{/* None where there can be only one pod: it would have nothing to keep. */}}
{{- define "common.podDisruptionBudget" -}}
{{- if and .Values.disruptionBudget.enabled (gt (include "common.maxReplicas" . | int) 1) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "common.metadata" . | nindent 2 }}
spec:
  # Not minAvailable: it would block the drain of a node when the autoscaler has left one pod.
  maxUnavailable: {{ .Values.disruptionBudget.maxUnavailable }}
  # A pod that is not ready serves no requests and must not block the drain of a node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "common.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}
