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
