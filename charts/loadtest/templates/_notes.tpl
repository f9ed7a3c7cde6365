{{- define "loadtest.notes" -}}
{{- $kubectl := printf "kubectl --namespace %s" .Release.Namespace -}}
{{- $job := include "loadtest.job" . -}}
{{ $job }}: {{ .Values.scenario }} on {{ .Values.runners }} runners, against {{ include "loadtest.target" . }}.
{{- if .Values.remoteWrite.url }}
Its series have the labels testid={{ .Values.testid | default (printf "%s-UID" .Values.scenario) }} and runner=0{{ if gt (int .Values.runners) 1 }} to {{ sub .Values.runners 1 }}{{ end }}.
{{- if not .Values.testid }} UID is that of the Job:
  {{ $kubectl }} get job {{ $job }} --output jsonpath={.metadata.uid}
{{- end }}
{{- end }}
{{- if and .Values.target.url .Values.networkPolicy.enabled (not .Values.networkPolicy.target) }}
WARNING: networkPolicy.target is empty. Runners reach only gateways and replicas of Corelane in this namespace.
{{- end }}

The run has passed if this exits with 0. Its log then contains the summary of each runner:
  {{ $kubectl }} wait --for=condition=Complete --timeout={{ .Values.deadline }} job/{{ $job }}
  {{ $kubectl }} logs --selector batch.kubernetes.io/job-name={{ $job }} --tail=-1 --prefix
{{- end -}}
