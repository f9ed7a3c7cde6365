{{/* What the notes of both charts say of unsafe sysctls, on lines of its own. */}}
{{- define "common.notes.sysctls" -}}
{{- with .Values.unsafeSysctls }}

Its pods fail on nodes whose kubelet does not name these in allowedUnsafeSysctls:
  {{ keys . | sortAlpha | join ", " }}
{{- end }}
{{- end -}}

{{/* What the notes of both charts say of their CPUs. */}}
{{- define "common.notes.cpus" -}}
{{- if .Values.exclusive -}}
A pod has CPUs of its own only where the kubelet runs with cpuManagerPolicy static and the node has whole
CPUs left. A pod that stays Pending found none: set fewer replicas, or exclusive: false to share CPUs.
{{- if ne (toString .Values.rollout.maxSurge) "0" }}
A roll-out needs the CPUs of {{ .Values.rollout.maxSurge }} more. Where they are not free, it waits for ever; set
  rollout: {maxSurge: 0, maxUnavailable: 1}
{{- end }}
{{- else -}}
Its pods share the CPUs of their nodes with others.
{{- end }}
{{- end -}}
