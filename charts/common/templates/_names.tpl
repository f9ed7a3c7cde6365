{{/*
Names. The name of the chart, server or gateway, is the last part of the names of its objects.
*/}}

{{/* What the releases of charts that belong together share: X of X, X-server and X-gateway. */}}
{{- define "common.base" -}}
{{- .Release.Name | trimSuffix .Chart.Name | trimSuffix "-" -}}
{{- end -}}

{{/* Release X gives X-server; releases server and X-server give their own name. */}}
{{- define "common.fullname" -}}
{{- .Values.fullnameOverride | default (include "common.sibling" (list . .Chart.Name)) -}}
{{- end -}}

{{/* The name that another chart gives its objects by default; takes a list of the root context and
the name of that chart. */}}
{{- define "common.sibling" -}}
{{- list (include "common.base" (index . 0)) (index . 1) | compact | join "-" -}}
{{- end -}}

{{- define "common.serviceAccountName" -}}
{{- $derived := ternary (include "common.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $derived -}}
{{- end -}}
