{{/*
Placement of runners: apart from the measured pods if possible, and not all on one node.
*/}}
{{- define "loadtest.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.affinity | default (include "loadtest.apart" . | fromYaml) }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "common.selectorLabels" . | nindent 8 }}
{{- end -}}

{{- define "loadtest.apart" -}}
{{- if eq .Values.apart "required" -}}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - {{ include "loadtest.apart.term" . | nindent 6 | trim }}
{{- else if eq .Values.apart "preferred" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        {{- include "loadtest.apart.term" . | nindent 8 }}
{{- end -}}
{{- end -}}

{{/* Pods of server and gateway in any namespace: a node is not only that of one. */}}
{{- define "loadtest.apart.term" -}}
topologyKey: kubernetes.io/hostname
namespaceSelector: {}
labelSelector:
  matchExpressions:
    - key: app.kubernetes.io/name
      operator: In
      values: [corelane-server, corelane-gateway]
{{- end -}}
