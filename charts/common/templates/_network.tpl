{{/*
Ports on which the container listens. The templates take a list of the root context and of the dotted
names of values, so that an error can name the value.
*/}}

{{/* The process ends at once where it finds one of its ports taken by itself. */}}
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

{{/* Some container runtimes lower the limit by themselves; Kubernetes promises that nowhere. */}}
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

{{- define "common.network.replicaLabels" -}}
app.kubernetes.io/part-of: corelane
app.kubernetes.io/component: replica
{{- end -}}

{{/* The replicas in the namespace, of any release. Those of 0.2.0 have the name only. */}}
{{- define "common.network.replicas" -}}
- podSelector:
    matchLabels:
      {{- include "common.network.replicaLabels" . | nindent 6 }}
{{ include "common.network.chart" "server" }}
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
