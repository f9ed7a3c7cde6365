{{/* The pods of a part of the release. Takes the root context and the part. */}}
{{- define "monitoring.network.part" -}}
- podSelector:
    matchLabels:
      {{- include "common.selectorLabels" (dict "App" (last .) "Release" (first .).Release) | nindent 6 }}
{{- end -}}

{{/* The port of a URL. */}}
{{- define "monitoring.network.urlPort" -}}
{{- $url := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- end -}}
