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

{{/* The pods of the other chart, in the same release or in one that belongs to it: X, X-server and
X-gateway. Takes a list of the root context and the name of that chart. */}}
{{- define "common.network.sibling" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: corelane-{{ index . 1 }}
    matchExpressions:
      - key: app.kubernetes.io/instance
        operator: In
        values:
          {{- $base := include "common.base" (index . 0) }}
          {{- list $base (include "common.sibling" .) | compact | uniq | toYaml | nindent 10 }}
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
