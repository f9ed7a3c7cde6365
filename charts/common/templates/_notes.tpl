{{/* The release notes about unsafe sysctls, on separate lines. */}}
{{- define "common.notes.sysctls" -}}
{{- with .Values.unsafeSysctls }}

The pods fail on nodes whose kubelet does not allow these sysctls in allowedUnsafeSysctls:
  {{ keys . | sortAlpha | join ", " }}
{{- end }}
{{- end -}}

{{/* The release notes about CPUs. */}}
{{- define "common.notes.cpus" -}}
{{- if eq .Values.pinning "exclusive" -}}
A pod gets exclusive CPUs only if the kubelet runs with cpuManagerPolicy static and the node has whole CPUs
left. If a pod stays Pending, reduce the number of replicas, or set pinning: shared.
{{- if ne (toString .Values.rollout.maxSurge) "0" }}
A rollout needs free CPUs for {{ .Values.rollout.maxSurge }} more. If they are not free, the rollout does not finish. In this case, set
  rollout: {maxSurge: 0, maxUnavailable: 1}
{{- end }}
{{- else -}}
The pods share the CPUs of their nodes with other pods. In production, give them their own: pinning: exclusive.
{{- end }}
{{- end -}}
