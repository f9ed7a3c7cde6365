{{/*
The server's configuration file: config of the values, and what follows from the pod.
*/}}
{{- define "server.config" -}}
{{- $pod := dict
  "listen" (printf "0.0.0.0:%d" (int .Values.ports.traffic))
  "admin" (dict "listen" (printf "0.0.0.0:%d" (int .Values.ports.admin)))
  "lanes" (int .Values.cpus)
  "pin" (get (dict "true" "on" "false" "off") (toString .Values.pin) | default .Values.pin)
-}}
{{- if .Values.static.root -}}
{{- $_ := set $pod "static" (dict "root" .Values.static.root) -}}
{{- end -}}
{{- if .Values.tls.secret -}}
{{- $_ := set $pod "tls" (dict "certificate" "/etc/corelane-tls/tls.crt" "key" "/etc/corelane-tls/tls.key") -}}
{{- end -}}
{{- with include "server.database.config" . | fromYaml -}}
{{- $_ := set $pod "database" . -}}
{{- end -}}
{{- if .Values.auth.tokensSecret.name -}}
{{- $_ := set $pod "auth" (dict "tokens" "/etc/corelane-auth/tokens") -}}
{{- end -}}
{{- include "server.toml" (merge $pod .Values.config) -}}
{{- end -}}

{{/* TOML of a map: plain keys first, because a table header would swallow them. Helm's own toToml
writes whole numbers of a values file as floats. */}}
{{- define "server.toml" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ include "server.tomlValue" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := . }}
{{- if and (kindIs "map" $value) $value }}

[{{ $key }}]
{{- include "server.toml" $value }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "server.tomlValue" -}}
{{- if kindIs "string" . -}}{{ toJson . }}{{- else if kindIs "bool" . -}}{{ ternary "on" "off" . | toJson }}{{- else if and (kindIs "float64" .) (ne (int64 . | float64) .) -}}{{ toJson . }}{{- else -}}{{ int64 . }}{{- end -}}
{{- end -}}
