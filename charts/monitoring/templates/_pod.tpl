{{/*
What the pods of the parts have in common. All take a part's context (_part.tpl).
*/}}

{{/* Above the pod. One pod at a time may have the volume, which is what a StatefulSet promises. */}}
{{- define "monitoring.statefulSet" -}}
replicas: 1
serviceName: {{ include "common.fullname" . }}
revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
# With OrderedReady, a pod that never becomes ready is not replaced by a corrected one.
podManagementPolicy: Parallel
selector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
{{- with .Values.persistence }}
{{- if .enabled }}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ ternary "Retain" "Delete" .keep }}
  whenScaled: Retain
volumeClaimTemplates:
  - metadata:
      name: data
      labels:
        {{- include "common.selectorLabels" $ | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .storageClass }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources:
        requests:
          storage: {{ .size }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volume `data`, unless it is claimed. */}}
{{- define "monitoring.data" -}}
{{- if not .Values.persistence.enabled -}}
- name: data
  emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
{{- end -}}
{{- end -}}

{{/* Pod Security "restricted", and a volume that the user may write. */}}
{{- define "monitoring.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.user | int64 }}
runAsGroup: {{ .Values.user | int64 }}
fsGroup: {{ .Values.user | int64 }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "monitoring.resources" -}}
{{- $memory := dict "memory" .Values.memory -}}
{{- $cpu := ternary (dict "cpu" .Values.cpu) dict (ne (toString .Values.cpu) "") -}}
{{- $derived := dict "requests" (merge $cpu $memory) "limits" $memory -}}
{{- .Values.resources | default $derived | toYaml -}}
{{- end -}}
