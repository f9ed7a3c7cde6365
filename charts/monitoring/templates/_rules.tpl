{{/*
Rules: the files of dashboards/rules. They have templates of Prometheus in them, which Helm must not read: only
.Files.Get is used on them, never tpl.
*/}}

{{- define "monitoring.objectives.file" -}}
rules/slo-objectives.rules.yaml
{{- end -}}

{{/* The content of a file of rules, with the objectives of the values. Takes the root context and the path. */}}
{{- define "monitoring.rules" -}}
{{- $root := first . -}}
{{- if eq (last .) (include "monitoring.objectives.file" .) -}}
{{- include "monitoring.objectives" $root -}}
{{- else -}}
{{- last . | $root.Files.Get -}}
{{- end -}}
{{- end -}}

{{/* The file of objectives with the numbers of the values in place of its own. */}}
{{- define "monitoring.objectives" -}}
{{- $wanted := include "monitoring.objectives.numbers" . | fromYaml -}}
{{- $file := include "monitoring.objectives.file" . | .Files.Get | fromYaml -}}
{{- range $group := $file.groups -}}
{{- range $rule := $group.rules -}}
{{- $name := list $rule.record ($rule.labels | default dict).slo | compact | join " " -}}
{{- if not (hasKey $wanted $name) -}}
{{- fail (printf "%s has %s, for which objectives has no value" (include "monitoring.objectives.file" $) $name) -}}
{{- end -}}
{{- $_ := get $wanted $name | printf "vector(%v)" | set $rule "expr" -}}
{{- end -}}
{{- $_ := include "monitoring.objectives.overrides" $ | fromYamlArray | concat $group.rules | set $group "rules" -}}
{{- end -}}
{{- $file | toYaml -}}
{{- end -}}

{{/* A record for each number of an override, as a list. slo.rules.yaml applies them. */}}
{{- define "monitoring.objectives.overrides" -}}
{{- $rules := list -}}
{{- range $at, $override := .Values.objectives.overrides -}}
{{- range $slo := list "availability" "latency" -}}
{{- if hasKey $override $slo -}}
{{- $labels := pick $override "namespace" "service" "route" | merge (dict "slo" $slo) -}}
{{- $rules = append $rules (dict "record" "slo:corelane_slo_objective:ratio" "expr" (get $override $slo | printf "vector(%v)") "labels" $labels) -}}
{{- end -}}
{{- end -}}
{{- with $override.latencyThreshold -}}
{{- $seconds := divf (printf "objectives.overrides[%d].latencyThreshold" $at | list . | include "common.duration" | float64) 1000 -}}
{{- $labels := pick $override "namespace" "service" "route" | merge (dict "slo" "latency") -}}
{{- $rules = append $rules (dict "record" "slo:corelane_slo_latency_threshold:seconds" "expr" (printf "vector(%v)" $seconds) "labels" $labels) -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* By record and its label slo. */}}
{{- define "monitoring.objectives.numbers" -}}
{{- $threshold := include "common.milliseconds" (list . "objectives.latencyThreshold") | float64 -}}
{{- with .Values.objectives -}}
slo:corelane_slo_objective:ratio availability: {{ .availability }}
slo:corelane_slo_objective:ratio latency: {{ .latency }}
slo:corelane_slo_latency_threshold:seconds latency: {{ divf $threshold 1000 }}
slo:corelane_slo_errors:floor availability: {{ .errorFloor }}
slo:corelane_slo_errors:floor latency: {{ .errorFloor }}
slo:corelane_capacity_used_objective:ratio: {{ .capacityUsed }}
{{- end -}}
{{- end -}}

{{/* Metadata of an object for the operator. Takes the root context and the ending of its name. */}}
{{- define "monitoring.operator.metadata" -}}
{{- $root := first . -}}
name: {{ include "monitoring.name" . }}
labels:
  {{- merge (include "common.labels" $root | fromYaml) $root.Values.operator.labels | toYaml | nindent 2 }}
{{- end -}}

{{/* The name of a dashboard's ConfigMap. Takes the root context and the path. */}}
{{- define "monitoring.dashboard" -}}
{{ include "common.fullname" (first .) }}-dashboard-{{ last . | base | trimSuffix ".json" | trimPrefix "corelane-" }}
{{- end -}}
