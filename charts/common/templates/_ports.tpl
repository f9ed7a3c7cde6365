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
