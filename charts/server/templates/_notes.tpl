{{- define "server.notes" -}}
{{- $name := include "common.fullname" . -}}
{{ $name }}: {{ if .Values.autoscaling.enabled }}{{ .Values.autoscaling.minReplicas }} to {{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicas }}{{ end }} replicas with {{ .Values.cpus }} lane(s) each, one per CPU.
{{ include "common.notes.cpus" . }}
The metric corelane_lane_info (label pinned) shows whether a lane has an exclusive CPU.
{{- include "common.notes.sysctls" . }}

{{ include "server.notes.database" . }}

Address for the gateway:
  {{ $name }}.{{ .Release.Namespace }}.svc, port {{ .Values.ports.traffic }} (health: {{ .Values.ports.admin }})

Send a request to a replica directly:
  kubectl --namespace {{ .Release.Namespace }} port-forward deployment/{{ $name }} 8080:{{ .Values.ports.traffic }} 8081:{{ .Values.ports.admin }} &
  curl -i http{{ if .Values.tls.secret }}s{{ end }}://127.0.0.1:8080/
  curl http://127.0.0.1:8081/metrics
{{- if .Values.networkPolicy.enabled }}

A NetworkPolicy allows gateways of the namespace, and Prometheus on the admin port. Add other peers to
networkPolicy.clients and networkPolicy.monitoring.
{{- end }}
{{- end -}}

{{- define "server.notes.database" -}}
{{- $each := mul .Values.cpus .Values.config.database.connections -}}
{{- with .Values.database -}}
{{- if eq .kind "none" -}}
Projects are disabled: database.kind is none.
{{- else if eq .kind "postgres" -}}
Projects are in PostgreSQL: {{ .postgres.url }}. Its max_connections must allow {{ mul $each (include "server.mostReplicas" $) }} connections,
{{ $each }} per replica, plus those of the additional replicas of a rollout.
{{- else if hasKey .sqlite.volume "emptyDir" -}}
Projects are in a file of the pod and are lost with it. Configure a claim in database.sqlite to keep them.
{{- else -}}
Projects are in a file on the claim {{ .sqlite.volume | default dict | dig "persistentVolumeClaim" "claimName" (include "server.database.claim" $) }}.
{{- end -}}
{{- if and (ne .kind "none") (not $.Values.auth.tokensSecret.name) }}
All writes are rejected: auth.tokensSecret.name is empty.
{{- end -}}
{{- end -}}
{{- end -}}
