{{/*
Scrape targets. The PodMonitors of operator mode and the jobs of standalone mode share them, so that series have the
same labels in both modes: job, service, namespace, pod, node and instance.
*/}}

{{/* The enabled targets, by job name. */}}
{{- define "monitoring.targets" -}}
{{- $found := dict -}}
{{- range $job, $target := .Values.targets -}}
{{- if $target.enabled -}}
{{- /* The `namespace` and `pod` labels that agents set identify the checked pod. */ -}}
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

{{/* Metric relabelings of a job, as a list in the form of a PodMonitor. Takes the root context and the job. */}}
{{- define "monitoring.samples" -}}
{{- $root := first . -}}
{{- $low := and (eq $root.Values.scrape.detail "low") (eq (last .) "service") -}}
{{- $own := $low | ternary (include "monitoring.samples.low" $root | fromYamlArray) list -}}
{{- concat $own ($root.Values.scrape.metricRelabelings | default list) | toYaml -}}
{{- end -}}

{{/* Samples of a replica that low detail drops. No alert reads them. */}}
{{- define "monitoring.samples.low" -}}
{{- $kept := list 10.0 100.0 1000.0 (include "common.milliseconds" (list . "objectives.latencyThreshold") | float64) -}}
{{- range $at, $override := .Values.objectives.overrides -}}
{{- with $override.latencyThreshold -}}
{{- $kept = append $kept (printf "objectives.overrides[%d].latencyThreshold" $at | list . | include "common.duration" | float64) -}}
{{- end -}}
{{- end -}}
{{- $left := list -}}
{{- range $bound := list 0.1 0.25 0.5 1.0 2.5 5.0 10.0 25.0 50.0 100.0 250.0 500.0 1000.0 2500.0 5000.0 10000.0 -}}
{{- if not (has $bound $kept) -}}
{{- $left = divf $bound 1000 | toString | replace "." "[.]" | append $left -}}
{{- end -}}
{{- end -}}
- action: drop
  sourceLabels: [__name__]
  regex: corelane_request_(phase_seconds_bucket|duration_seconds_sum)|corelane_load_table_((lane|service)_deviation_seconds|service_seconds|service_time_squared_seconds_total)|corelane_database_(operation_duration_seconds|commit_duration_seconds|saves_per_commit)_bucket|corelane_faults_injected_total
- action: drop
  sourceLabels: [__name__, phase]
  regex: corelane_request_phase_seconds_.+;(accept|handler|write)
- action: drop
  sourceLabels: [__name__, le]
  regex: corelane_request_duration_seconds_bucket;({{ join "|" $left }})([.]0)?
{{- end -}}
