{{- define "gateway.args" -}}
- --config-path
- /etc/envoy/envoy.yaml
# A new configuration is a new pod; hot restart would need shared memory.
- --disable-hot-restart
# One worker per CPU of the pod.
- --concurrency
- {{ .Values.cpus | quote }}
- --log-level
- {{ .Values.logLevel }}
{{- end -}}

{{/* A duration in protobuf's JSON format, such as 0.250s. Takes a list of the root context and the
dotted name of a value. */}}
{{- define "gateway.duration" -}}
{{- include "gateway.seconds" (include "common.milliseconds" . | int64) -}}
{{- end -}}

{{/* The same, of milliseconds. */}}
{{- define "gateway.seconds" -}}
{{- $milliseconds := int64 . -}}
{{- if mod $milliseconds 1000 -}}
{{- printf "%d.%03ds" (div $milliseconds 1000) (mod $milliseconds 1000) -}}
{{- else -}}
{{- printf "%ds" (div $milliseconds 1000) -}}
{{- end -}}
{{- end -}}
