{{/*
Names. The name of the chart, such as gateway, is the last part of the names of its objects. If a chart has a
nameOverride value, it is named after its release, because the release is what the chart installs.
*/}}

{{/* The suffix that a chart adds to the name of its release. It is empty for a service without nameOverride. */}}
{{- define "common.part" -}}
{{- if hasKey .Values "nameOverride" -}}
{{- .Values.nameOverride | trimPrefix "corelane-" -}}
{{- else -}}
{{- .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* The common part in the names of releases that belong together: X for X, X-server and X-gateway. */}}
{{- define "common.base" -}}
{{- .Release.Name | trimSuffix (include "common.part" .) | trimSuffix "-" -}}
{{- end -}}

{{/* For release X, the name is X-gateway. For the releases gateway and X-gateway, it is the release's own name. */}}
{{- define "common.fullname" -}}
{{- $name := .Values.fullnameOverride | default (include "common.sibling" (list . (include "common.part" .))) -}}
{{- /* Each chart has a Service, and the rules for its name are stricter than the rules for a release name. Helm rejects
capitals, but helm-unittest uses them. */ -}}
{{- if not (regexMatch "^[a-zA-Z]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$" $name) -}}
{{- fail (printf "the release %s gives its objects the name %s, which a Service cannot have. Choose another name for the release, or set fullnameOverride: up to 63 lower-case letters, digits and -, with a letter first" .Release.Name $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The name that another chart gives its objects by default. Takes a list of the root context and the name of that
chart. */}}
{{- define "common.sibling" -}}
{{- list (include "common.base" (index . 0)) (index . 1) | compact | join "-" -}}
{{- end -}}

{{- define "common.serviceAccountName" -}}
{{- $derived := ternary (include "common.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $derived -}}
{{- end -}}

{{/* The application that runs in the pods. A chart with several kinds of pods renders each kind with a context that
contains App. */}}
{{- define "common.app" -}}
{{- if .App -}}
{{- .App -}}
{{- else if hasKey .Values "nameOverride" -}}
{{- .Values.nameOverride | default (include "common.fullname" .) -}}
{{- else -}}
corelane-{{ .Chart.Name }}
{{- end -}}
{{- end -}}

{{/* Policies and agents use these labels to find pods, whatever the pods' names are. All replicas have the replica
component. */}}
{{- define "common.partLabels" -}}
app.kubernetes.io/part-of: corelane
app.kubernetes.io/component: {{ .App | default (index .Chart.Annotations "corelane/component") | default .Chart.Name | quote }}
{{- end -}}

{{/* These two must never change: a Deployment's selector is immutable. */}}
{{- define "common.selectorLabels" -}}
app.kubernetes.io/name: {{ include "common.app" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of an object. Labels that the chart itself sets take precedence. */}}
{{- define "common.labels" -}}
{{- $own := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_"))
-}}
{{- merge (include "common.selectorLabels" . | fromYaml) (include "common.partLabels" . | fromYaml) $own (.Values.labels | default dict) | toYaml -}}
{{- end -}}

{{/* Labels of a pod. They exclude version and chart, which would replace the pods with every new version of the
chart. */}}
{{- define "common.podLabels" -}}
{{- $service := dict "corelane/service" (include "common.fullname" .) -}}
{{- merge (include "common.selectorLabels" . | fromYaml) (include "common.partLabels" . | fromYaml) $service (.Values.podLabels | default dict) (.Values.labels | default dict) | toYaml -}}
{{- end -}}

{{- define "common.metadata" -}}
name: {{ include "common.fullname" . | quote }}
labels:
  {{- include "common.labels" . | nindent 2 }}
{{- end -}}
