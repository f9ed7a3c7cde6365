{{/*
The configuration file, and what the chart tells the service by variables.
*/}}

{{- define "service.config" -}}
{{- if eq .Values.configFile.format "toml" -}}
{{- include "service.toml" (list . .Values.config) | trim -}}
{{- else if eq .Values.configFile.format "json" -}}
{{- toPrettyJson .Values.config -}}
{{- else -}}
{{- toYaml .Values.config -}}
{{- end -}}
{{- end -}}

{{/* TOML of a map: plain keys first, because a table header would swallow them. Helm's own toToml
writes whole numbers of a values file as floats. Takes the root context, the map, and the names of the tables around it. */}}
{{- define "service.toml" -}}
{{- $root := first . -}}
{{- $path := slice . 2 -}}
{{- range $key, $value := index . 1 }}
{{- if not (kindIs "map" $value) }}
{{ include "service.toml.key" $key }} = {{ include "service.toml.value" (list $root $value) }}
{{- end }}
{{- end }}
{{- range $key, $value := index . 1 }}
{{- if kindIs "map" $value }}
{{- $inner := include "service.toml.key" $key | append $path }}

[{{ join "." $inner }}]
{{- concat (list $root $value) $inner | include "service.toml" }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "service.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/* Settings of the Corelane library are on or off, which YAML reads as booleans. */}}
{{- define "service.toml.value" -}}
{{- $root := first . -}}
{{- $value := last . -}}
{{- if kindIs "slice" $value -}}
[{{ range $index, $each := $value }}{{ if $index }}, {{ end }}{{ include "service.toml.value" (list $root $each) }}{{ end }}]
{{- else if kindIs "map" $value -}}
{ {{- range $index, $key := keys $value | sortAlpha }}{{ if $index }}, {{ end }}{{ include "service.toml.key" $key }} = {{ include "service.toml.value" (list $root (get $value $key)) }}{{ end -}} }
{{- else if kindIs "string" $value -}}
{{ toJson $value }}
{{- else if and (kindIs "bool" $value) (eq $root.Values.runtime "corelane") -}}
{{ ternary "on" "off" $value | toJson }}
{{- else if or (kindIs "bool" $value) (and (kindIs "float64" $value) (ne (int64 $value | float64) $value)) -}}
{{ toJson $value }}
{{- else -}}
{{ int64 $value }}
{{- end -}}
{{- end -}}

{{/* Variables of the chart; `env` comes after them. */}}
{{- define "service.env" -}}
- name: PORT
  value: {{ .Values.ports.traffic | int | quote }}
{{- if eq .Values.runtime "corelane" }}
# The name that replies carry in corelane-replica.
- name: CORELANE_REPLICA
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- range $name, $value := include "service.settings" . | fromYaml }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Settings of the Corelane library that follow from the pod. */}}
{{- define "service.settings" -}}
CORELANE_LISTEN: 0.0.0.0:{{ int .Values.ports.traffic }}
CORELANE_ADMIN_LISTEN: 0.0.0.0:{{ int .Values.ports.admin }}
CORELANE_LANES: {{ .Values.cpus }}
CORELANE_PIN: {{ ternary "auto" "\"off\"" (eq .Values.pinning "exclusive") }}
CORELANE_DRAIN_SETTLE: {{ .Values.drain.settle }}
CORELANE_DRAIN_DEADLINE: {{ .Values.drain.deadline }}
{{- if .Values.config }}
CORELANE_CONFIG: {{ .Values.configFile.path }}
{{- end }}
{{- if .Values.tls.secret }}
CORELANE_TLS_CERTIFICATE: /etc/corelane-tls/tls.crt
CORELANE_TLS_KEY: /etc/corelane-tls/tls.key
{{- end }}
{{- end -}}
