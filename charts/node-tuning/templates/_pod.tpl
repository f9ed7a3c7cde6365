{{/*
Parts of the agent's pod. In audit mode, it has no privileges. The modes apply and restore need these:

- privileged: for every other container, the container runtime mounts /proc/sys, /proc/irq and /sys read-only,
  whatever its capabilities, and omits /dev/cpu_dma_latency. Privileged mode also lets the agent read pods' sysctls in
  their network namespaces and, through process 1, irqbalance's file in the node's /etc. Writable mounts of the node's
  own /proc and /sys would be no safer: write access to kernel.core_pattern alone is enough to become root on the
  node.
- user 0: root owns the files that the agent writes, and the journal.

Every mode needs hostNetwork, because net.* sysctls and network devices belong to a network namespace. Every mode also
needs hostPID, because the agent reads the limits and CPUs of other pods from /proc.
*/}}

{{/* Not empty in a mode that changes the node. */}}
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
# The mode is not in the file, because a restarted container rereads the file. The mode must change
# together with the pod's privileges.
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
# In audit mode, the agent creates only an empty folder on a node.
- name: journal
  hostPath:
    path: {{ .Values.journal.hostPath | quote }}
    type: DirectoryOrCreate
{{ include "common.token.volume" "token" }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The nodes on which agents run. */}}
{{- define "node-tuning.placement" -}}
nodeSelector:
  {{- merge (dict "kubernetes.io/os" "linux") (.Values.nodeSelector | default dict) | toYaml | nindent 2 }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
tolerations:
  # In every mode, because a node may have the taint since its registration, or from another mode.
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
