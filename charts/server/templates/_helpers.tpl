{{/* Seconds until the kubelet kills the pod: the drain, and a margin for the process to end. */}}
{{- define "server.gracePeriod" -}}
{{- $deadline := include "common.seconds" (list . "config.drain.deadline") | int64 -}}
{{- $derived := add $deadline (include "common.seconds" (list . "shutdown.margin")) -}}
{{- .Values.shutdown.gracePeriodSeconds | default $derived | int64 -}}
{{- end -}}

{{/* Mounts in addition to the configuration. */}}
{{- define "server.volumeMounts" -}}
- name: config
  mountPath: /etc/corelane
  readOnly: true
{{- if .Values.tls.secret }}
# The whole folder: a file that is mounted by subPath never changes.
- name: tls
  mountPath: /etc/corelane-tls
  readOnly: true
{{- end }}
{{- if .Values.static.volume }}
- name: static
  mountPath: {{ .Values.static.root | quote }}
  readOnly: true
{{- end }}
{{- with include "server.database.volumeMounts" . | trim }}
{{ . }}
{{- end }}
{{- if .Values.auth.tokensSecret.name }}
- name: tokens
  mountPath: /etc/corelane-auth
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "server.volumes" -}}
- name: config
  configMap:
    name: {{ include "common.fullname" . }}
{{- with .Values.tls.secret }}
- name: tls
  secret:
    secretName: {{ . | quote }}
{{- end }}
{{- with .Values.static.volume }}
- name: static
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "server.database.volumes" . | trim }}
{{ . }}
{{- end }}
{{- with .Values.auth.tokensSecret }}
{{- if .name }}
- name: tokens
  secret:
    secretName: {{ .name | quote }}
    items: [{key: {{ .key | quote }}, path: tokens}]
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
