{{/*
Mutual TLS between gateways and replicas: both sides have a certificate that names their service account. A chart
has the value mtls; a parent chart has global.mtls for all its charts.
*/}}

{{/* A value of mtls. Takes the root context and the key. */}}
{{- define "common.mtls.value" -}}
{{- $key := last . -}}
{{- with first . -}}
{{- $shared := (.Values.global | default dict).mtls | default dict -}}
{{- get .Values.mtls $key | default (get $shared $key) -}}
{{- end -}}
{{- end -}}

{{/* Not empty if mutual TLS is on. */}}
{{- define "common.mtls" -}}
{{- if eq (include "common.mtls.value" (list . "enabled")) "true" -}}
yes
{{- end -}}
{{- end -}}

{{/* The identity of a service account. Takes the root context, a namespace and the account. */}}
{{- define "common.mtls.identity" -}}
{{- $domain := include "common.mtls.value" (list (first .) "trustDomain") | default "cluster.local" -}}
{{- printf "spiffe://%s/ns/%s/sa/%s" $domain (index . 1) (last .) -}}
{{- end -}}

{{/* The identity of the chart's own pods. */}}
{{- define "common.mtls.own" -}}
{{- include "common.mtls.identity" (list . .Release.Namespace (include "common.serviceAccountName" .)) -}}
{{- end -}}

{{/* What the notes say of the chart's Secret. Takes the root context and the name of the Secret. */}}
{{- define "common.notes.mtls" }}

Mutual TLS: the Secret {{ last . }} must have tls.crt, tls.key and ca.crt, and the certificate must name
  URI:{{ include "common.mtls.own" (first .) }}
{{- end -}}
