{{/*
Scrape targets. PodMonitors of mode operator and jobs of mode standalone share them, so that series have the same
labels in both modes: job, service, namespace, pod, node and instance.
*/}}

{{/* The targets that are enabled, by the name of their job. */}}
{{- define "monitoring.targets" -}}
{{- $found := dict -}}
{{- range $job, $target := .Values.targets -}}
{{- if $target.enabled -}}
{{- /* The agents' own labels namespace and pod identify the checked pod. */ -}}
{{- $_ := merge (dict "honorLabels" (eq $job "node-tuning")) (omit $target "enabled") | set $found $job -}}
{{- end -}}
{{- end -}}
{{- $found | toYaml -}}
{{- end -}}

{{/* The namespaces of their pods, as a list. */}}
{{- define "monitoring.namespaces" -}}
{{- .Values.namespaces | default (list .Release.Namespace) | toYaml -}}
{{- end -}}

{{/* The expression of a label selector. */}}
{{- define "monitoring.selector" -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}
{{- $parts = printf "%s=%s" $key $value | append $parts -}}
{{- end -}}
{{- join "," $parts -}}
{{- end -}}
