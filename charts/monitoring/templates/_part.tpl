{{/*
Prometheus, Alertmanager and Grafana of mode standalone, each a part with pods of its own. A part's templates get a
context in which the part's values stand at the top, so that the library's templates serve it as they serve a chart.
*/}}

{{/* Completes a dict of the root context and of App, the part's name: then it is the part's context. */}}
{{- define "monitoring.part" -}}
{{- $root := .root -}}
{{- $own := dict
  "fullnameOverride" (include "monitoring.name" (list $root .App))
  "serviceAccount" (dict "create" false "name" "")
  "prometheusAnnotations" false
  "topologySpread" list
-}}
{{- $values := deepCopy $root.Values -}}
{{- $_ := mergeOverwrite $values $own (deepCopy (get $root.Values .App)) | set . "Values" -}}
{{- range $key := list "Chart" "Release" "Capabilities" -}}
{{- $_ := get $root $key | set $ $key -}}
{{- end -}}
{{- end -}}

{{/* The name of a part's objects. Takes the root context and the part. */}}
{{- define "monitoring.name" -}}
{{ include "common.fullname" (first .) }}-{{ last . }}
{{- end -}}

{{/* Not empty where a part runs. Takes the root context and the part. */}}
{{- define "monitoring.runs" -}}
{{- $root := first . -}}
{{- $part := last . -}}
{{- if and (eq $root.Values.mode "standalone") (or (eq $part "prometheus") (get $root.Values $part).enabled) -}}true{{- end -}}
{{- end -}}

{{/* Where a part answers. Takes the root context and the part. */}}
{{- define "monitoring.address" -}}
{{- $root := first . -}}
{{ include "monitoring.name" . }}.{{ $root.Release.Namespace }}.svc:{{ (get $root.Values (last .)).port | int }}
{{- end -}}

{{/* As people reach it, or as the cluster does. Takes the root context and the part. */}}
{{- define "monitoring.url" -}}
{{- (get (first .).Values (last .)).externalUrl | default (printf "http://%s" (include "monitoring.address" .)) -}}
{{- end -}}

{{- define "monitoring.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "common.metadata" . | nindent 2 }}
spec:
  selector:
    {{- include "common.selectorLabels" . | nindent 4 }}
  ports:
    - name: {{ .App }}
      port: {{ .Values.port }}
      targetPort: {{ .App }}
{{- end -}}

{{/* The path of that URL: all of a part is below it. Takes the root context and the part. */}}
{{- define "monitoring.path" -}}
{{- (include "monitoring.url" . | urlParse).path | trimSuffix "/" -}}
{{- end -}}

{{/* Where probes ask Prometheus and Alertmanager. Takes the root context and the part. */}}
{{- define "monitoring.probePaths" -}}
ready: {{ include "monitoring.path" . }}/-/ready
live: {{ include "monitoring.path" . }}/-/healthy
{{- end -}}
