{{/*
Prometheus' configuration file, of mode standalone. Takes the root context.
*/}}
{{- define "monitoring.prometheus.config" -}}
global:
  scrape_interval: {{ .Values.scrape.interval }}
  scrape_timeout: {{ .Values.scrape.timeout }}
  evaluation_interval: {{ .Values.scrape.interval }}
  {{- with .Values.prometheus.externalLabels }}
  external_labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
storage:
  tsdb:
    retention:
      time: {{ .Values.prometheus.retention.time }}
      {{- with .Values.prometheus.retention.size }}
      size: {{ . }}
      {{- end }}
rule_files: [/etc/prometheus-rules/*.rules.yaml]
{{- if include "monitoring.runs" (list . "alertmanager") }}
alerting:
  alertmanagers:
    - static_configs:
        - targets: [{{ include "monitoring.address" (list . "alertmanager") | quote }}]
      {{- with include "monitoring.path" (list . "alertmanager") }}
      path_prefix: {{ . }}
      {{- end }}
{{- end }}
scrape_configs:
  {{- $namespaces := include "monitoring.namespaces" . | fromYamlArray }}
  {{- range $job, $target := include "monitoring.targets" . | fromYaml }}
  {{- $samples := include "monitoring.samples" (list $ $job) | fromYamlArray }}
  {{- merge (dict "job" $job "namespaces" $namespaces "samples" $samples) $target | include "monitoring.prometheus.job" | nindent 2 }}
  {{- end }}
  {{- range $part := list "prometheus" "alertmanager" }}
  {{- if include "monitoring.runs" (list $ $part) }}
  {{- $selector := include "common.selectorLabels" (dict "App" $part "Release" $.Release) | fromYaml }}
  {{- $target := dict "job" $part "namespaces" (list $.Release.Namespace) "selector" $selector "port" $part "path" (printf "%s/metrics" (include "monitoring.path" (list $ $part))) }}
  {{- include "monitoring.prometheus.job" $target | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- with .Values.prometheus.extraScrapeConfigs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.prometheus.remoteWrite }}
remote_write:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What a PodMonitor becomes with the operator. Takes a target with its job and namespaces. */}}
{{- define "monitoring.prometheus.job" -}}
- job_name: {{ .job }}
  metrics_path: {{ .path }}
  {{- if .honorLabels }}
  honor_labels: true
  {{- end }}
  kubernetes_sd_configs:
    - role: pod
      namespaces:
        names:
          {{- toYaml .namespaces | nindent 10 }}
      selectors:
        - role: pod
          label: {{ include "monitoring.selector" .selector | quote }}
  relabel_configs:
    - {source_labels: [__meta_kubernetes_pod_phase], regex: Succeeded|Failed, action: drop}
    {{- if .port }}
    - {source_labels: [__meta_kubernetes_pod_container_port_name], regex: {{ .port | quote }}, action: keep}
    {{- else }}
    - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_port], target_label: __meta_kubernetes_pod_container_port_number, action: keepequal}
    - {source_labels: [__meta_kubernetes_pod_annotation_prometheus_io_path], regex: (.+), target_label: __metrics_path__}
    {{- end }}
    - {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
    - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
    - {source_labels: [__meta_kubernetes_pod_node_name], target_label: node}
    - {source_labels: [__meta_kubernetes_pod_label_corelane_service], target_label: service}
  {{- with .samples }}
  metric_relabel_configs:
    {{- range . }}
    {{- $own := dict }}
    {{- range $key, $value := . }}
    {{- $_ := set $own (snakecase $key) $value }}
    {{- end }}
    - {{ toJson $own }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Where it looks for pods, as a list: also in its own namespace, for itself. */}}
{{- define "monitoring.prometheus.namespaces" -}}
{{- append (include "monitoring.namespaces" . | fromYamlArray) .Release.Namespace | uniq | toYaml -}}
{{- end -}}
