{{/*
Ports on which the container listens. The templates take a list of the root context and the dotted names of values, so
that an error can name the value.
*/}}

{{/* The process exits immediately if two of its listeners have the same port. */}}
{{- define "common.guards.samePorts" -}}
{{- $seen := dict -}}
{{- range $name := rest . -}}
{{- $port := list (first $) $name | include "common.port" -}}
{{- with get $seen $port -}}
{{- fail (printf "%s and %s are both %s, but each port can have one listener: change one of them" . $name $port) -}}
{{- end -}}
{{- $_ := set $seen $port $name -}}
{{- end -}}
{{- end -}}

{{/* Some container runtimes lower the limit by themselves, but Kubernetes does not guarantee this. */}}
{{- define "common.guards.lowPorts" -}}
{{- $sysctl := "net.ipv4.ip_unprivileged_port_start" -}}
{{- $lowest := get (first .).Values.sysctls $sysctl | default "1024" | int -}}
{{- range $name := rest . -}}
{{- $port := list (first $) $name | include "common.port" | int -}}
{{- if lt $port $lowest -}}
{{- fail (printf "%s is %d, but the container does not run as root and may listen on ports from %d on: choose such a port or set %s in sysctls to \"%d\"" $name $port $lowest $sysctl $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "common.port" -}}
{{- $value := (first .).Values -}}
{{- range last . | splitList "." -}}
{{- $value = index $value . -}}
{{- end -}}
{{- int $value -}}
{{- end -}}

{{/*
Parts of a NetworkPolicy. Probes need no rule, because a pod always accepts connections from its node's kubelet.
*/}}

{{- define "common.network.selected" -}}
podSelector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
# Both are listed, so that anything that no rule allows is rejected in both directions. An empty
# list of rules is omitted, because the API server does not store it, and each apply would count as
# a change.
policyTypes: [Ingress, Egress]
{{- end -}}

{{/* The pods of another chart in the namespace, in any release, because a gateway may be installed separately from its
replicas under any name. Takes the name of that chart. */}}
{{- define "common.network.chart" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: corelane-{{ . }}
{{- end -}}

{{- define "common.network.replicaLabels" -}}
app.kubernetes.io/part-of: corelane
app.kubernetes.io/component: replica
{{- end -}}

{{/* The replicas in the namespace, in any release. Replicas of 0.2.0 have only the name label. */}}
{{- define "common.network.replicas" -}}
- podSelector:
    matchLabels:
      {{- include "common.network.replicaLabels" . | nindent 6 }}
{{ include "common.network.chart" "server" }}
{{- end -}}

{{/* The helm test pods of the release. */}}
{{- define "common.network.tests" -}}
- podSelector:
    matchLabels:
      {{- include "common.test.labels" . | nindent 6 }}
{{- end -}}

{{/* Takes TCP port numbers. */}}
{{- define "common.network.ports" -}}
ports:
  {{- range . }}
  - protocol: TCP
    port: {{ . }}
  {{- end }}
{{- end -}}

{{/* A rule that allows looking up host names. */}}
{{- define "common.network.names" -}}
# DNS at any address, because the address of a node-local DNS cache does not belong to a pod.
- ports:
    - protocol: UDP
      port: 53
    - protocol: TCP
      port: 53
{{- end -}}
