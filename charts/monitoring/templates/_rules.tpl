{{/*
Rules: the files in dashboards/rules. They contain Prometheus templates, which Helm must not expand, so they are read
with .Files.Get and never passed to tpl.
*/}}

{{- define "monitoring.objectives.file" -}}
rules/slo-objectives.rules.yaml
{{- end -}}

{{/* The content of a rule file, with the objectives from the values. Takes the root context and the path. */}}
{{- define "monitoring.rules" -}}
{{- $root := first . -}}
{{- if eq (last .) (include "monitoring.objectives.file" .) -}}
{{- include "monitoring.objectives" $root -}}
{{- else -}}
{{- $text := last . | $root.Files.Get -}}
{{- with get (include "monitoring.rules.boards" $root | fromYaml) (last . | base | trimSuffix ".rules.yaml") -}}
{{- $board := printf "%s/d/%s" $root.Values.rules.dashboardUrl . | replace "$" "$$" -}}
{{- $book := "" -}}
{{- with include "monitoring.rules.runbooks" $root -}}
{{- $book = replace "$" "$$" . | printf "${1}runbook_url: %s/${2}\n" -}}
{{- end -}}
{{- printf "${1}runbook: dashboards/runbooks/${2}\n%s${1}dashboard_url: \"%s\"" $book $board | regexReplaceAll "(?m)^( +)runbook: dashboards/runbooks/(.+)$" $text -}}
{{- else -}}
{{- $text -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The URL of the runbooks. It is empty if only a release has one. */}}
{{- define "monitoring.rules.runbooks" -}}
{{- $home := contains "/OWNER/" .Chart.Home | ternary "" (printf "%s/blob/v%s" .Chart.Home .Chart.Version) -}}
{{- with default $home .Values.rules.runbookUrl -}}
{{ . }}/dashboards/runbooks
{{- end -}}
{{- end -}}

{{/* The dashboard for each alert file, with its variables. */}}
{{- define "monitoring.rules.boards" -}}
{{- $service := "var-namespace={{ $labels.namespace }}&var-service={{ $labels.service }}" -}}
certificate-alerts: corelane-overview?var-namespace={{ "{{ $labels.namespace }}" }}
client-alerts: corelane-service?{{ $service }}
database-alerts: corelane-service?{{ $service }}
gateway-alerts: corelane-gateway?var-namespace={{ "{{ $labels.namespace }}" }}&var-gateway={{ "{{ $labels.service }}" }}
lane-alerts: corelane-lanes?{{ $service }}
monitoring-alerts: corelane-overview?var-namespace={{ "{{ $labels.namespace }}" }}
node-alerts: corelane-nodes?var-node={{ "{{ $labels.node }}" }}
server-alerts: corelane-lanes?{{ $service }}
slo-alerts: corelane-overview?var-namespace={{ "{{ $labels.namespace }}" }}
{{- end -}}

{{/* An alert that always fires, for standalone mode. kube-prometheus has its own. */}}
{{- define "monitoring.rules.watchdog" -}}
groups:
  - name: corelane-watchdog
    rules:
      - alert: Watchdog
        expr: vector(1)
        labels: {severity: none}
        annotations:
          summary: This alert always fires
          description: If it stops, Prometheus or Alertmanager is down. The value is 1; so is the threshold.
{{- end -}}

{{/* The objectives file, with the numbers from the values instead of its own. */}}
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

{{/* A recording rule for each number in an override, as a list. slo.rules.yaml applies them. */}}
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

{{/* Keyed by the record and its `slo` label. */}}
{{- define "monitoring.objectives.numbers" -}}
{{- $threshold := include "common.milliseconds" (list . "objectives.latencyThreshold") | float64 -}}
{{- with .Values.objectives -}}
slo:corelane_slo_objective:ratio availability: {{ .availability }}
slo:corelane_slo_objective:ratio latency: {{ .latency }}
slo:corelane_slo_latency_threshold:seconds latency: {{ divf $threshold 1000 }}
slo:corelane_slo_errors:floor availability: {{ .errorFloor }}
slo:corelane_slo_errors:floor latency: {{ .errorFloor }}
slo:corelane_capacity_used_objective:ratio: {{ .capacityUsed }}
slo:corelane_replicas_spare:count: {{ .spareReplicas }}
slo:corelane_replicas_lead:seconds: {{ .replicaLead }}
{{- end -}}
{{- end -}}

{{/* Metadata of an object for the operator. Takes the root context and the suffix of its name. */}}
{{- define "monitoring.operator.metadata" -}}
{{- $root := first . -}}
name: {{ include "monitoring.name" . | quote }}
labels:
  {{- merge (include "common.labels" $root | fromYaml) ($root.Values.operator.labels | default dict) | toYaml | nindent 2 }}
{{- end -}}

{{/* The name of a dashboard's ConfigMap. Takes the root context and the path. */}}
{{- define "monitoring.dashboard" -}}
{{ include "common.fullname" (first .) }}-dashboard-{{ last . | base | trimSuffix ".json" | trimPrefix "corelane-" }}
{{- end -}}
