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

{{/* The path of that URL: all of a part is below it. Takes the root context and the part. */}}
{{- define "monitoring.path" -}}
{{- (include "monitoring.url" . | urlParse).path | trimSuffix "/" -}}
{{- end -}}

{{/* Where probes ask Prometheus and Alertmanager. Takes the root context and the part. */}}
{{- define "monitoring.probePaths" -}}
ready: {{ include "monitoring.path" . }}/-/ready
live: {{ include "monitoring.path" . }}/-/healthy
{{- end -}}

{{/*
What the pods of the parts have in common. All take the context of a part.
*/}}

{{/* Above the pod. One pod at a time may have the volume, which is what a StatefulSet promises. */}}
{{- define "monitoring.statefulSet" -}}
replicas: 1
serviceName: {{ include "common.fullname" . }}
revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
# With OrderedReady, a pod that never becomes ready is not replaced by a corrected one.
podManagementPolicy: Parallel
selector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
{{- with .Values.persistence }}
{{- if .enabled }}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ ternary "Retain" "Delete" .keep }}
  whenScaled: Retain
volumeClaimTemplates:
  - metadata:
      name: data
      labels:
        {{- include "common.selectorLabels" $ | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .storageClass }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources:
        requests:
          storage: {{ .size }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volume `data`, unless it is claimed. */}}
{{- define "monitoring.data" -}}
{{- if not .Values.persistence.enabled -}}
- name: data
  emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
{{- end -}}
{{- end -}}

{{/* Pod Security "restricted", and a volume that the user may write. */}}
{{- define "monitoring.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.user | int64 }}
runAsGroup: {{ .Values.user | int64 }}
fsGroup: {{ .Values.user | int64 }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "monitoring.resources" -}}
{{- $memory := dict "memory" .Values.memory -}}
{{- $cpu := ternary (dict "cpu" .Values.cpu) dict (ne (.Values.cpu | default "" | toString) "") -}}
{{- $derived := dict "requests" (merge $cpu $memory) "limits" $memory -}}
{{- .Values.resources | default $derived | toYaml -}}
{{- end -}}

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

{{/* A pod of helm test that asks a part, past the policies. Takes the root context, the part, the ending of the pod's
name, the path below the part's own, and further arguments. */}}
{{- define "monitoring.test" -}}
{{- $part := dict "root" .root "App" .part -}}
{{- include "monitoring.part" $part -}}
{{- $url := printf "http://%s%s" (include "monitoring.address" (list .root .part)) .path -}}
{{- $arguments := concat (list $url "--deadline" "60s") .more -}}
{{- dict "root" $part "name" .name "arguments" $arguments | include "common.test.pod" -}}
{{- end -}}
