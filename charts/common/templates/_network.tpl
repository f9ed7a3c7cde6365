{{/*
Parts of a NetworkPolicy. Probes need no rule: a pod always talks to the kubelet of its own node.
*/}}

{{- define "common.network.selected" -}}
podSelector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
# Both are named, so that what no rule allows is refused in both directions.
policyTypes: [Ingress, Egress]
{{- end -}}

{{/* The pods of another chart in the namespace, of whatever release: a gateway may be installed apart from
its replicas, under any name. Takes the name of that chart. */}}
{{- define "common.network.chart" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: corelane-{{ . }}
{{- end -}}

{{/* The pods of helm test in the release. */}}
{{- define "common.network.tests" -}}
- podSelector:
    matchLabels:
      {{- include "common.test.labels" . | nindent 6 }}
{{- end -}}

{{/* Takes numbers of TCP ports. */}}
{{- define "common.network.ports" -}}
ports:
  {{- range . }}
  - protocol: TCP
    port: {{ . }}
  {{- end }}
{{- end -}}

{{/* A rule for names of hosts. */}}
{{- define "common.network.names" -}}
# DNS, wherever it is: the address of a node's own cache belongs to no pod.
- ports:
    - protocol: UDP
      port: 53
    - protocol: TCP
      port: 53
{{- end -}}
