{{/*
Prometheus, Alertmanager and Grafana of standalone mode. Each is a part with its own pods. In the context of a part, its
values are at the top level, so that the library's templates work for a part as they do for a chart.
*/}}

{{/* Turns a dict of the root context and App, the part's name, into the part's context. */}}
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

{{/* Not empty if a part runs. Takes the root context and the part. */}}
{{- define "monitoring.runs" -}}
{{- $root := first . -}}
{{- $part := last . -}}
{{- if and (eq $root.Values.mode "standalone") (or (eq $part "prometheus") (get $root.Values $part).enabled) -}}true{{- end -}}
{{- end -}}

{{/* The address of a part. Takes the root context and the part. */}}
{{- define "monitoring.address" -}}
{{- $root := first . -}}
{{ include "monitoring.name" . }}.{{ $root.Release.Namespace }}.svc:{{ (get $root.Values (last .)).port | int }}
{{- end -}}

{{/* The URL of a part for people, or else for the cluster. Takes the root context and the part. */}}
{{- define "monitoring.url" -}}
{{- (get (first .).Values (last .)).externalUrl | default (printf "http://%s" (include "monitoring.address" .)) -}}
{{- end -}}

{{/* The path of that URL. A part serves everything below it. Takes the root context and the part. */}}
{{- define "monitoring.path" -}}
{{- (include "monitoring.url" . | urlParse).path | trimSuffix "/" -}}
{{- end -}}

{{/* The path for probes of Prometheus and Alertmanager. Takes the root context and the part. */}}
{{- define "monitoring.probePaths" -}}
ready: {{ include "monitoring.path" . }}/-/ready
live: {{ include "monitoring.path" . }}/-/healthy
{{- end -}}

{{/*
Templates that the pods of all parts share. Each takes the context of a part.
*/}}

{{/* Fields outside the pod template. Only one pod at a time may use the volume, which a StatefulSet guarantees. */}}
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

{{/* The volume `data`, unless there is a claim for it. */}}
{{- define "monitoring.data" -}}
{{- if not .Values.persistence.enabled -}}
- name: data
  emptyDir: {sizeLimit: {{ .Values.persistence.size }}}
{{- end -}}
{{- end -}}

{{/* Pod Security "restricted", and a volume that the user can write to. */}}
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

{{/* A helm test pod that sends a request to a part, and that the policies allow. Takes the root context, the part, the
suffix of the pod's name, the path below the part's own path, and further arguments. */}}
{{- define "monitoring.test" -}}
{{- $part := dict "root" .root "App" .part -}}
{{- include "monitoring.part" $part -}}
{{- $url := printf "http://%s%s" (include "monitoring.address" (list .root .part)) .path -}}
{{- $arguments := concat (list $url "--deadline" "60s") .more -}}
{{- dict "root" $part "name" .name "arguments" $arguments | include "common.test.pod" -}}
{{- end -}}
