{{/* Where all agents answer. */}}
{{- define "node-tuning.url" -}}
http://{{ include "common.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.port }}
{{- end -}}

{{- define "node-tuning.notes" -}}
{{- $name := include "common.fullname" . -}}
{{- $exec := printf "kubectl --namespace %s exec daemonset/%s -- /node-tuner" .Release.Namespace $name -}}
{{ $name }}: an agent in mode {{ .Values.mode }}, profile {{ .Values.profile }}, on {{ if or .Values.nodeSelector .Values.affinity }}the nodes that nodeSelector and affinity choose{{ else }}every node{{ end }}.
{{- if eq .Values.mode "audit" }}
It changes nothing, and restores nothing: what mode apply has changed before stays, also when this release is
uninstalled. Mode restore comes in between.
{{- else if eq .Values.mode "apply" }}
{{- if not (or .Values.nodeSelector .Values.affinity) }}
WARNING: nodeSelector is empty. Every node is changed, also those on which no pod of Corelane runs.
{{- end }}
{{- if .Release.IsInstall }}
WARNING: the first agents come to all of these nodes at once; only later changes go node by node. Where that
matters, install in mode audit, look, and change the mode by helm upgrade.
{{- end }}
{{- if not .Values.uninstall.enabled }}
uninstall.enabled is false: helm uninstall leaves the nodes as they are then. Mode restore comes before it.
{{- end }}
{{- else }}
It writes back what was there before mode apply. An agent is ready when nothing is left to restore.
{{- end }}

What differs on one node, and whether the pods of all nodes have their CPUs alone:
  {{ $exec }} plan
  {{ $exec }} proof
{{- end -}}
