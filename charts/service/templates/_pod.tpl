{{/* Parts of the pod that depend on the kind of image. */}}

{{- define "service.podSecurityContext" -}}
{{- mergeOverwrite (include "common.pod.securityContext" . | fromYaml) (.Values.podSecurityContext | default dict) | toYaml -}}
{{- end -}}

{{- define "service.securityContext" -}}
{{- mergeOverwrite (include "common.container.security" . | fromYaml) (.Values.securityContext | default dict) | toYaml -}}
{{- end -}}

{{/* Seconds until the kubelet kills the pod: the drain and a margin for the process to exit. */}}
{{- define "service.gracePeriod" -}}
{{- add (include "common.seconds" (list . "drain.deadline")) 5 -}}
{{- end -}}

{{/* An image without the library accepts requests only until SIGTERM, so the kubelet sends SIGTERM after gateways have
noticed the deletion. The kubelet itself sleeps, so the image needs no shell. */}}
{{- define "service.lifecycle" -}}
{{- $settle := include "common.seconds" (list . "drain.settle") | int -}}
{{- if and (eq .Values.runtime "other") $settle -}}
lifecycle:
  preStop:
    sleep:
      seconds: {{ $settle }}
{{- end -}}
{{- end -}}

{{- define "service.ports" -}}
- name: http
  containerPort: {{ .Values.ports.traffic }}
{{- with int .Values.ports.admin }}
- name: admin
  containerPort: {{ . }}
{{- end }}
{{- if and .Values.metrics.enabled (not (has (toString .Values.metrics.port) (list "http" "admin"))) }}
- name: metrics
  containerPort: {{ int .Values.metrics.port }}
{{- end }}
{{- end -}}

{{/* The number of the metrics port, or nothing if there are no metrics. */}}
{{- define "service.metricsPort" -}}
{{- if .Values.metrics.enabled -}}
{{- get (dict "http" .Values.ports.traffic "admin" .Values.ports.admin) (toString .Values.metrics.port) | default .Values.metrics.port | int -}}
{{- end -}}
{{- end -}}

{{- define "service.probes" -}}
{{- $values := .Values.probes -}}
{{- $admin := eq $values.type "admin" -}}
{{- $ready := $values.path | default (ternary "/readyz" "/" $admin) -}}
{{- $live := $values.livenessPath | default (ternary "/healthz" "" $admin) -}}
{{- $port := $values.port | default (ternary "admin" "http" $admin) -}}
{{- /* Kubernetes runs a startup probe at most once a second, which would delay a new replica's first request. */}}
{{- $usual := dict "startup" (ternary (dict) (dict "periodSeconds" 1 "failureThreshold" 30) (and $admin (eq .Values.runtime "corelane"))) -}}
{{- range $probe, $path := dict "startup" $ready "readiness" $ready "liveness" $live }}
{{- with get $values $probe | default (get $usual $probe) }}
{{ $probe }}Probe:
  {{- /* A restart does not help a service that reports that it is not ready. Without a path, the liveness probe
  therefore only opens a connection. */}}
  {{- if or (eq $values.type "tcp") (and (eq $probe "liveness") (not $live)) }}
  tcpSocket: {port: {{ $port }}}
  {{- else if and (eq $values.type "grpc") (or (ne $probe "liveness") (not $live)) }}
  # This kind of probe does not accept port names.
  grpc: {port: {{ $values.port | default $.Values.ports.traffic | int }}}
  {{- else }}
  httpGet:
    path: {{ $path | quote }}
    port: {{ $port }}
    {{- if and (include "service.tls.secret" $) (not $admin) }}
    scheme: HTTPS
    {{- end }}
  {{- end }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "service.volumeMounts" -}}
{{- if .Values.config }}
- name: config
  mountPath: {{ dir .Values.configFile.path | quote }}
  readOnly: true
{{- end }}
{{- if include "service.tls.secret" . }}
# The whole folder is mounted, because a file that is mounted with subPath is never updated.
- name: tls
  mountPath: /etc/corelane-tls
  readOnly: true
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "service.volumes" -}}
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ include "common.fullname" . | quote }}
{{- end }}
{{- with include "service.tls.secret" . }}
- name: tls
  {{- include "common.mtls.volume" (list $ .) | nindent 2 }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
