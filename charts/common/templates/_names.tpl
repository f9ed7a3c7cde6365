{{/*
Names. The name of the chart, such as gateway, is the last part of the names of its objects. A chart with the value
nameOverride is named after its release, because the release is what the chart installs.
*/}}

{{/* What a chart adds to the name of its release; nothing for a service without nameOverride. */}}
{{- define "common.part" -}}
{{- if hasKey .Values "nameOverride" -}}
{{- .Values.nameOverride | trimPrefix "corelane-" -}}
{{- else -}}
{{- .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* What the releases of charts that belong together share: X of X, X-server and X-gateway. */}}
{{- define "common.base" -}}
{{- .Release.Name | trimSuffix (include "common.part" .) | trimSuffix "-" -}}
{{- end -}}

{{/* Release X gives X-gateway; releases gateway and X-gateway give their own name. */}}
{{- define "common.fullname" -}}
{{- $name := .Values.fullnameOverride | default (include "common.sibling" (list . (include "common.part" .))) -}}
{{- /* Each chart has a Service, whose name is stricter than that of a release. Helm refuses capitals, helm-unittest has them. */ -}}
{{- if not (regexMatch "^[a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$" $name) -}}
{{- fail (printf "the release %s gives its objects the name %s, which a Service cannot have. Choose another name for the release, or set fullnameOverride: up to 63 lower-case letters, digits and -, with a letter first" .Release.Name $name) -}}
{{- end -}}
{{- $name -}}
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

{{/* What runs in the pods. A chart with several kinds of pods renders each with a context that has an App. */}}
{{- define "common.app" -}}
{{- if .App -}}
{{- .App -}}
{{- else if hasKey .Values "nameOverride" -}}
{{- .Values.nameOverride | default (include "common.fullname" .) -}}
{{- else -}}
corelane-{{ .Chart.Name }}
{{- end -}}
{{- end -}}

{{/* By these, policies and agents find pods whatever their names are: all replicas are of component replica. */}}
{{- define "common.partLabels" -}}
app.kubernetes.io/part-of: corelane
app.kubernetes.io/component: {{ .App | default (index .Chart.Annotations "corelane/component") | default .Chart.Name | quote }}
{{- end -}}

{{/* These two must never change: a Deployment's selector is immutable. */}}
{{- define "common.selectorLabels" -}}
app.kubernetes.io/name: {{ include "common.app" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of an object. What the chart itself sets wins. */}}
{{- define "common.labels" -}}
{{- $own := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
-}}
{{- merge (include "common.selectorLabels" . | fromYaml) (include "common.partLabels" . | fromYaml) $own (.Values.labels | default dict) | toYaml -}}
{{- end -}}

{{/* Labels of a pod: without version and chart, which would roll the pods of every new release. */}}
{{- define "common.podLabels" -}}
{{- $service := dict "corelane/service" (include "common.fullname" .) -}}
{{- merge (include "common.selectorLabels" . | fromYaml) (include "common.partLabels" . | fromYaml) $service (.Values.podLabels | default dict) (.Values.labels | default dict) | toYaml -}}
{{- end -}}

{{- define "common.metadata" -}}
name: {{ include "common.fullname" . | quote }}
labels:
  {{- include "common.labels" . | nindent 2 }}
{{- end -}}
