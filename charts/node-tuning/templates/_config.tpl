{{/*
The agent's configuration file. Values that only the pod knows, and the mode, come from the environment.
*/}}
{{- define "node-tuning.config" -}}
{{- $agent := dict
  "daemonset" (printf "%s/%s" .Release.Namespace (include "common.fullname" .))
  "drift" .Values.drift
  "interval" .Values.interval
  "cgroups" (include "node-tuning.cgroups" .)
  "pods" .Values.pods.selector
-}}
{{- with .Values.nofile -}}
{{- $_ := int64 . | set $agent "nofile" -}}
{{- end -}}
{{- if .Values.taint.enabled -}}
{{- $_ := set $agent "taint" .Values.taint.key -}}
{{- end -}}
{{- if .Values.deletionCost.enabled -}}
{{- $_ := set $agent "deletion-cost" .Values.deletionCost.interval -}}
{{- end -}}
{{- dict
  "profile" .Values.profile
  "knobs" (include "node-tuning.knobs" . | fromYaml)
  "root" .Values.root
  "journal" (include "node-tuning.journal" .)
  "housekeeping" (.Values.housekeeping | default "")
  "interfaces" (.Values.interfaces | default list)
  "log" (dict "level" (include "node-tuning.text" .Values.log.level) "format" .Values.log.format)
  "agent" $agent
  | toYaml -}}
{{- end -}}

{{- define "node-tuning.knobs" -}}
{{- range $name, $value := .Values.knobs }}
{{ $name | quote }}: {{ include "node-tuning.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* A value as text, because YAML reads a bare off as false, and large numbers must not become 1e+06. */}}
{{- define "node-tuning.text" -}}
{{- if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if kindIs "string" . -}}
{{- . -}}
{{- else -}}
{{- int64 . -}}
{{- end -}}
{{- end -}}

{{/* Mount paths of the node's folders in the container. */}}
{{- define "node-tuning.cgroups" -}}
/host/sys/fs/cgroup
{{- end -}}

{{- define "node-tuning.journal" -}}
/var/lib/corelane/node-tuner
{{- end -}}
