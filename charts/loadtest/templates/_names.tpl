{{/* The Job's name. A Job cannot be changed, so every revision of the release has one of its own: a run of its own. */}}
{{- define "loadtest.job" -}}
{{ include "common.fullname" . }}-{{ .Release.Revision }}
{{- end -}}

{{/* The context of the pod that starts the runners. No Service and no policy of the runners may mean it. */}}
{{- define "loadtest.starter" -}}
{{- $_ := set . "App" "corelane-loadtest-start" -}}
{{- range $key := list "Chart" "Release" "Values" "Capabilities" -}}
{{- $_ := get $.root $key | set $ $key -}}
{{- end -}}
{{- end -}}

{{/* Where requests go. */}}
{{- define "loadtest.target" -}}
{{- $base := include "common.base" . | default "corelane" -}}
{{- .Values.target.url | default (printf "http://%s" (list $base "gateway" | join "-")) -}}
{{- end -}}

{{/* Status of each runner's k6, separated by commas. An indexed Job gives its pods these names in the Service. */}}
{{- define "loadtest.runnerUrls" -}}
{{- $urls := list -}}
{{- range $index := until (int .Values.runners) -}}
{{- $urls = printf "http://%s-%d.%s:6565/v1/status" (include "loadtest.job" $) $index (include "common.fullname" $) | append $urls -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}
