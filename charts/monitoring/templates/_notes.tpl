{{- define "monitoring.notes" -}}
{{- $namespaces := include "monitoring.namespaces" . | fromYamlArray | join ", " -}}
{{- if eq .Values.mode "operator" -}}
{{ include "common.fullname" . }}: PodMonitors of {{ include "monitoring.targets" . | fromYaml | keys | sortAlpha | join ", " }} in {{ $namespaces }}{{ if .Values.rules.enabled }} and the rules{{ end }}, for the Prometheus operator.
{{- if not .Values.operator.labels }}
WARNING: operator.labels is empty. A Prometheus whose podMonitorSelector or ruleSelector requires labels ignores these
objects. The default of kube-prometheus-stack requires one.
{{- end }}
{{- else -}}
{{ include "common.fullname" . }}: a Prometheus for the pods in {{ $namespaces }}.
{{- range $name := list "prometheus" "alertmanager" "grafana" }}
{{- if include "monitoring.runs" (list $ $name) }}
  kubectl --namespace {{ $.Release.Namespace }} port-forward service/{{ include "monitoring.name" (list $ $name) }} {{ (get $.Values $name).port }}
{{- end }}
{{- end }}
{{- if not .Values.prometheus.persistence.enabled }}
WARNING: prometheus.persistence.enabled is false. The series, and with them the history of the objectives, are
lost with the pod.
{{- end }}
{{- if and .Values.alertmanager.enabled (not .Values.alertmanager.webhook) (not .Values.alertmanager.config.secret) }}
WARNING: alertmanager.webhook is empty. Alerts are shown, but no one is notified.
{{- end }}
{{- if and .Values.alertmanager.enabled .Values.alertmanager.config.secret .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) }}
WARNING: networkPolicy.egress is empty. Alertmanager cannot reach the receivers of the Secret {{ .Values.alertmanager.config.secret }}.
{{- end }}
{{- end }}
{{- end -}}
