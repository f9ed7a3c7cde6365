{{/*
The configuration file, and the environment variables that the chart sets.
*/}}

{{- define "service.config" -}}
{{- $config := (include "service.present" (list "config" .Values.config) | fromJson).value | default dict -}}
{{- if eq .Values.configFile.format "toml" -}}
{{- include "service.toml" (list . $config) | trim -}}
{{- else if eq .Values.configFile.format "json" -}}
{{- toPrettyJson $config -}}
{{- else -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{/* The same value, as {"value": ...} in JSON, without the keys that are null: they are absent in every format. Takes
its dotted name, and the value. */}}
{{- define "service.present" -}}
{{- $name := first . -}}
{{- $value := last . -}}
{{- if kindIs "map" $value -}}
{{- $found := dict -}}
{{- range $key, $each := $value -}}
{{- if not (kindIs "invalid" $each) -}}
{{- $_ := set $found $key (include "service.present" (list (printf "%s.%s" $name $key) $each) | fromJson).value -}}
{{- end -}}
{{- end -}}
{{- $value = $found -}}
{{- else if kindIs "slice" $value -}}
{{- $found := list -}}
{{- range $index, $each := $value -}}
{{- if kindIs "invalid" $each -}}
{{- fail (printf "%s[%d] is null: remove it from the list" $name $index) -}}
{{- end -}}
{{- $found = append $found (include "service.present" (list (printf "%s[%d]" $name $index) $each) | fromJson).value -}}
{{- end -}}
{{- $value = $found -}}
{{- else if and (has (kindOf $value) (list "int64" "float64")) (ge (maxf $value (mulf -1 $value)) 9007199254740992.0) -}}
{{- fail (printf "%s is %v: Helm rounds numbers of 2^53 (9007199254740992) and more, so write it as text, in quotes" $name $value) -}}
{{- else if and (kindIs "string" $value) (regexMatch "[\\x7F-\\x9F\\x{FFFE}\\x{FFFF}]" $value) -}}
{{- fail (printf "%s is %q: it has a control character, which YAML cannot contain" $name $value) -}}
{{- end -}}
{{- dict "value" $value | toJson -}}
{{- end -}}

{{/* TOML of a map. Plain keys come first, because after a table header they would belong to that table. Helm's own
toToml writes whole numbers from a values file as floats. Takes the root context, the map, and the names of the tables
around it. */}}
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

{{/* Variables that the chart sets. `env` follows them. */}}
{{- define "service.env" -}}
- name: PORT
  value: {{ .Values.ports.traffic | int | quote }}
{{- if eq .Values.runtime "corelane" }}
# The replica's name in the corelane-replica header of replies.
- name: CORELANE_REPLICA
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- range $name, $value := include "service.settings" . | fromYaml }}
- name: {{ $name | quote }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Settings of the Corelane library that depend on the pod. */}}
{{- define "service.settings" -}}
CORELANE_LISTEN: 0.0.0.0:{{ int .Values.ports.traffic }}
CORELANE_ADMIN_LISTEN: 0.0.0.0:{{ int .Values.ports.admin }}
CORELANE_LANES: {{ .Values.cpus }}
CORELANE_PIN: {{ ternary "auto" "\"off\"" (eq .Values.pinning "exclusive") }}
CORELANE_DRAIN_SETTLE: {{ .Values.drain.settle }}
CORELANE_DRAIN_DEADLINE: {{ .Values.drain.deadline }}
{{- if .Values.config }}
CORELANE_CONFIG: {{ .Values.configFile.path | quote }}
{{- end }}
{{- if include "service.tls.secret" . }}
CORELANE_TLS_CERTIFICATE: /etc/corelane-tls/tls.crt
CORELANE_TLS_KEY: /etc/corelane-tls/tls.key
{{- end }}
{{- if include "common.mtls" . }}
CORELANE_TLS_CLIENTS_CA: /etc/corelane-tls/ca.crt
CORELANE_TLS_CLIENTS_ALLOW: {{ include "service.mtls.clients" . | fromJsonArray | join "," | quote }}
{{- end }}
{{- end -}}

{{- define "service.tls.secret" -}}
{{- .Values.tls.secret | default (ternary (printf "%s-mtls" (include "common.fullname" .)) "" (ne (include "common.mtls" .) "")) -}}
{{- end -}}

{{/* Clients that may connect with mutual TLS. A service in a larger release belongs to the release's gateway. */}}
{{- define "service.mtls.clients" -}}
{{- $gateway := .Values.routes.gateway -}}
{{- $account := ternary (include "common.sibling" (list . "gateway")) $gateway.name (ne .Values.nameOverride "") -}}
{{- $identity := include "common.mtls.identity" (list . ($gateway.namespace | default .Release.Namespace) $account) -}}
{{- $clients := prepend .Values.mtls.clients $identity -}}
{{- range .Values.networkPolicy.callers -}}
{{- $clients = append $clients (include "common.mtls.identity" (list $ (.namespace | default $.Release.Namespace) .service)) -}}
{{- end -}}
{{- uniq $clients | toJson -}}
{{- end -}}
