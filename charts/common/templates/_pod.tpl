{{/*
Parts of a pod. The first two suit every pod of the charts, those of helm test included.
*/}}

{{/* Pod Security Standards, profile "restricted". */}}
{{- define "common.pod.security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "common.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Who the pod is and what it may do. */}}
{{- define "common.pod.identity" -}}
serviceAccountName: {{ include "common.serviceAccountName" . }}
automountServiceAccountToken: false
# A Service named corelane-... would become variables CORELANE_..., which the server refuses as
# unknown settings.
enableServiceLinks: false
{{- with include "common.imagePullSecrets" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "common.pod.securityContext" -}}
{{ include "common.pod.security" . }}
{{- with merge (dict) .Values.sysctls .Values.unsafeSysctls }}
sysctls:
  {{- range $name, $value := . }}
  - name: {{ $name }}
    value: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Where the pod runs. */}}
{{- define "common.pod.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if .Values.topologySpread }}
topologySpreadConstraints:
  {{- range .Values.topologySpread }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "common.selectorLabels" $ | nindent 8 }}
    # Spread the pods of one rollout, not old pods together with new ones.
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}
