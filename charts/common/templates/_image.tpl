{{/* The image: by digest if there is one, from the registry of the chart or of all charts. */}}
{{- define "common.image" -}}
{{- $image := .Values.image -}}
{{- $registry := $image.registry | default .Values.global.imageRegistry -}}
{{- list $registry $image.repository | compact | join "/" -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "common.imagePullSecrets" -}}
{{- with concat .Values.imagePullSecrets (.Values.global.imagePullSecrets | default list) | uniq -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
