{{/* A pod of helm test that asks a part, past the policies. Takes the root context, the part, the ending of the pod's
name, the path below the part's own, and further arguments. */}}
{{- define "monitoring.test" -}}
{{- $part := dict "root" .root "App" .part -}}
{{- include "monitoring.part" $part -}}
{{- $_ := set $part.Values "image" .root.Values.test.image -}}
{{- $url := printf "http://%s%s" (include "monitoring.address" (list .root .part)) .path -}}
{{- $arguments := concat (list $url "--deadline" "60s") .more -}}
{{- dict "root" $part "name" .name "arguments" $arguments | include "common.test.pod" -}}
{{- end -}}
