{{/* The Job's name. A Job cannot be changed, so every revision of the release has its own Job, which is a new run. */}}
{{- define "loadtest.job" -}}
{{ include "common.fullname" . }}-{{ .Release.Revision }}
{{- end -}}

{{/* The context of the pod that starts the runners. The runners' Service and policy must not select it. */}}
{{- define "loadtest.starter" -}}
{{- $_ := set . "App" "corelane-loadtest-start" -}}
{{- range $key := list "Chart" "Release" "Values" "Capabilities" -}}
{{- $_ := get $.root $key | set $ $key -}}
{{- end -}}
{{- end -}}

{{/* Where requests go. */}}
{{- define "loadtest.target" -}}
{{- $base := include "common.base" . | default "corelane" -}}
{{- .Values.target.url | default (printf "http://%s" (list $base "gateway" | join "-")) -}}
{{- end -}}

{{/* The status URLs of all runners' k6, separated by commas. An indexed Job gives its pods these names in the
Service. */}}
{{- define "loadtest.runnerUrls" -}}
{{- $urls := list -}}
{{- range $index := until (int .Values.runners) -}}
{{- $urls = printf "http://%s-%d.%s:6565/v1/status" (include "loadtest.job" $) $index (include "common.fullname" $) | append $urls -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/*
Placement of runners: away from the measured pods if possible, and on several nodes.
*/}}
{{- define "loadtest.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
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

{{/* Replicas and gateways in any namespace, because a node can run pods of several namespaces. */}}
{{- define "loadtest.apart.term" -}}
topologyKey: kubernetes.io/hostname
namespaceSelector: {}
labelSelector:
  matchExpressions:
    - key: app.kubernetes.io/part-of
      operator: In
      values: [corelane]
    - key: app.kubernetes.io/component
      operator: In
      values: [replica, gateway]
{{- end -}}
