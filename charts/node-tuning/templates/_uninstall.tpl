{{/*
Before anything is deleted, a Job sets the DaemonSet's mode to restore and waits until all agents are ready. They
are ready when nothing is left to restore.
*/}}

{{/* Not empty where there may be something to restore, and agents that can. */}}
{{- define "node-tuning.uninstall" -}}
{{- if and .Values.uninstall.enabled (include "node-tuning.writes" .) -}}true{{- end -}}
{{- end -}}

{{- define "node-tuning.uninstall.name" -}}
{{- /* A Job's name becomes a label, of at most 63 characters. */ -}}
{{ include "common.fullname" . | trunc 53 | trimSuffix "-" }}-uninstall
{{- end -}}

{{/* Takes the root context and the weight: the lowest comes first. What fails stays, and `helm uninstall` may be
run again. */}}
{{- define "node-tuning.uninstall.metadata" -}}
name: {{ include "node-tuning.uninstall.name" .root | quote }}
labels:
  {{- include "common.labels" .root | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
