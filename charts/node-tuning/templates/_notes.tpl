{{/* The address of all agents. */}}
{{- define "node-tuning.url" -}}
http://{{ include "common.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.port }}
{{- end -}}

{{- define "node-tuning.notes" -}}
{{- $name := include "common.fullname" . -}}
{{- $exec := printf "kubectl --namespace %s exec daemonset/%s -- /node-tuner" .Release.Namespace $name -}}
{{ $name }}: an agent in mode {{ .Values.mode }}, profile {{ .Values.profile }}, on {{ if or .Values.nodeSelector .Values.affinity }}the nodes that nodeSelector and affinity select{{ else }}every node{{ end }}.
{{- if eq .Values.mode "audit" }}
This mode changes and restores nothing. Changes of an earlier mode apply stay, even after the release is
uninstalled. To restore them, use mode restore first.
{{- else if eq .Values.mode "apply" }}
{{- if not (or .Values.nodeSelector .Values.affinity) }}
WARNING: nodeSelector is empty. Every node is changed, even those without pods of Corelane.
{{- end }}
{{- if .Release.IsInstall }}
WARNING: the first installation changes all of these nodes at the same time. Only later changes proceed node by
node. To avoid that, install in mode audit first, review the plan, and change the mode with helm upgrade.
{{- end }}
{{- if not .Values.uninstall.enabled }}
uninstall.enabled is false: helm uninstall does not restore the nodes. To restore them, use mode restore first.
{{- end }}
{{- else }}
This mode writes back the values from before mode apply. An agent is ready when nothing is left to restore.
{{- end }}

Show the differences on one node, and the proof that pods have exclusive CPUs:
  {{ $exec }} plan
  {{ $exec }} proof
{{- end -}}
