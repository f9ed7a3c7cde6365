{{/*
Durations. Each template takes a list of the root context and the dotted name of a value, so that
an error can name the value.
*/}}

{{/* Milliseconds of a duration such as 250ms or 5s. */}}
{{- define "common.milliseconds" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $value := $root.Values -}}
{{- range splitList "." $name -}}
{{- $value = index $value . -}}
{{- end -}}
{{- if not (regexMatch "^[0-9]+(ms|s|m|h)$" (toString $value)) -}}
{{- fail (printf "%s is %v: give a whole number with one of the units ms, s, m, h, such as 250ms or 5s" $name $value) -}}
{{- end -}}
{{- $factors := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mul (regexFind "^[0-9]+" $value | int64) (get $factors (regexFind "[a-z]+$" $value)) -}}
{{- end -}}

{{/* Seconds, rounded up, as Kubernetes takes them. */}}
{{- define "common.seconds" -}}
{{- div (add (include "common.milliseconds" . | int64) 999) 1000 -}}
{{- end -}}
