{{/*
Parts of the agent's pod. In mode audit it has no privilege; apply and restore need these:

- privileged: the container runtime mounts /proc/sys, /proc/irq and /sys read-only for every other container,
  whatever its capabilities, and it has no /dev/cpu_dma_latency. It also lets the agent look into the network
  namespaces of pods, for what their sysctls are, and at the node's /etc, for irqbalance, by process 1. To mount
  the node's own /proc and /sys to write would be no less: kernel.core_pattern alone makes its writer root there.
- user 0: what is written there belongs to root, and so does the journal.

In every mode: hostNetwork, because net.* and network devices are those of a network namespace, and hostPID,
because the limits and CPUs of other pods are read from /proc.
*/}}

{{/* Not empty in a mode that writes. */}}
{{- define "node-tuning.writes" -}}
{{- if ne .Values.mode "audit" -}}true{{- end -}}
{{- end -}}

{{- define "node-tuning.pod.security" -}}
{{- if include "node-tuning.writes" . -}}
runAsNonRoot: false
runAsUser: 0
runAsGroup: 0
{{- else -}}
{{- include "common.pod.security" . -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.container.security" -}}
{{- if include "node-tuning.writes" . -}}
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
{{- include "common.container.security" . -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.resources" -}}
{{- $memory := dict "memory" .Values.memory -}}
{{- $cpu := ternary (dict "cpu" .Values.cpu) dict (ne (.Values.cpu | default "" | toString) "") -}}
{{- $derived := dict "requests" (merge $cpu $memory) "limits" $memory -}}
{{- .Values.resources | default $derived | toYaml -}}
{{- end -}}

{{/* Also for commands in the pod: `kubectl exec daemonset/NAME -- /node-tuner plan`, or proof. */}}
{{- define "node-tuning.env" -}}
- name: NODE_TUNER_CONFIG
  value: /etc/node-tuner/config.yaml
- name: NODE_TUNER_AGENTS
  value: {{ include "node-tuning.url" . }}
# Not in the file, which a restarted container reads again: the mode and the pod's privileges change together.
- name: NODE_TUNER_AGENT_MODE
  value: {{ .Values.mode }}
- name: NODE_TUNER_AGENT_NODE
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: HOST_IP
  valueFrom:
    fieldRef:
      fieldPath: status.hostIP
- name: NODE_TUNER_AGENT_LISTEN
  value: {{ printf "%s:%d" (include "node-tuning.address" .) (int .Values.port) | quote }}
{{- end -}}

{{- define "node-tuning.address" -}}
{{- $address := .Values.address | default "$(HOST_IP)" -}}
{{- ternary (printf "[%s]" $address) $address (contains ":" $address) -}}
{{- end -}}

{{- define "node-tuning.volumeMounts" -}}
- name: config
  mountPath: /etc/node-tuner
  readOnly: true
- name: cgroups
  mountPath: {{ include "node-tuning.cgroups" . | quote }}
  readOnly: true
- name: journal
  mountPath: {{ include "node-tuning.journal" . | quote }}
  readOnly: {{ not (include "node-tuning.writes" .) }}
{{ include "common.token.mount" "token" }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "node-tuning.volumes" -}}
- name: config
  configMap:
    name: {{ include "common.fullname" . | quote }}
- name: cgroups
  hostPath:
    path: {{ .Values.cgroups.hostPath | quote }}
    type: Directory
# An empty folder is all that mode audit ever makes on a node.
- name: journal
  hostPath:
    path: {{ .Values.journal.hostPath | quote }}
    type: DirectoryOrCreate
{{ include "common.token.volume" "token" }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where agents run. */}}
{{- define "node-tuning.placement" -}}
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") (.Values.nodeSelector | default dict) | toYaml | nindent 2 }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # In every mode: a node may have it from its registration on, or from another mode.
  - key: {{ .Values.taint.key | quote }}
    operator: Exists
  {{- with .Values.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The address of all agents. */}}
{{- define "node-tuning.url" -}}
http://{{ include "common.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.port }}
{{- end -}}
