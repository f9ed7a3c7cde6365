{{/*
Parts of a container.
*/}}

{{- define "common.container.image" -}}
image: {{ include "common.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
# The last lines of the log become part of the pod's state when it fails: kubectl describe shows them.
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{/* The three probes. Takes the root context, the port, and the paths of readiness and liveness. By
httpGet: an exec probe would run on the pod's own CPUs. */}}
{{- define "common.container.probes" -}}
{{- $paths := dict "startup" .ready "readiness" .ready "liveness" .live -}}
{{- range $probe := list "startup" "readiness" "liveness" }}
{{ $probe }}Probe:
  httpGet:
    path: {{ get $paths $probe }}
    port: {{ $.port }}
  {{- toYaml (get $.root.Values.probes $probe) | nindent 2 }}
{{- end }}
{{- end -}}
