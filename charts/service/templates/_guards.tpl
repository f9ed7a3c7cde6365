{{/*
Checks that the schema cannot express. Each error names the value and the fix.
*/}}
{{- define "service.guards" -}}
{{- include "common.guards.renamed" (list .Values "" (include "common.renamed" . | fromYaml)) -}}
{{- include "service.guards.image" . -}}
{{- include "common.guards" . -}}
{{- include "service.guards.ports" . -}}
{{- include "service.guards.mtls" . -}}
{{- include "service.guards.drain" . -}}
{{- include "service.guards.settings" . -}}
{{- include "service.guards.calls" . -}}
{{- if eq .Values.pinning "exclusive" -}}
{{- include "service.guards.guaranteed" . -}}
{{- end -}}
{{- end -}}

{{- define "service.guards.image" -}}
{{- with .Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is empty: set it to the image of the service, such as registry.example/team/shop" -}}
{{- end -}}
{{- if not (or .tag .digest (hasPrefix "corelane-" (base .repository))) -}}
{{- fail (printf "image.tag and image.digest are empty, and only images of Corelane have the version of the chart: set one of them for %s" .repository) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "service.guards.ports" -}}
{{- $ports := list "ports.traffic" "ports.admin" -}}
{{- if not .Values.ports.admin -}}
{{- $ports = list "ports.traffic" -}}
{{- if eq .Values.runtime "corelane" -}}
{{- fail "ports.admin is 0 but runtime is corelane, which has an admin port: set ports.admin, or set runtime to other if the image does not use the Corelane library" -}}
{{- end -}}
{{- if eq .Values.probes.type "admin" -}}
{{- fail "probes.type is admin but ports.admin is 0: set probes.type to http, grpc or tcp, which use the traffic port" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (toString .Values.metrics.port) "admin") -}}
{{- fail "metrics.port is admin but ports.admin is 0: set metrics.port to http or a number, or metrics.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- concat (list .) $ports | include "common.guards.samePorts" -}}
{{- concat (list .) $ports | include "common.guards.lowPorts" -}}
{{- end -}}

{{/* The kubelet and Prometheus have no certificate. */}}
{{- define "service.guards.mtls" -}}
{{- include "common.guards.mtls" . -}}
{{- if and (include "common.mtls" .) (eq .Values.runtime "corelane") -}}
{{- $traffic := list "" "http" (toString .Values.ports.traffic) -}}
{{- if and (has .Values.probes.type (list "http" "grpc")) (has (toString .Values.probes.port) $traffic) -}}
{{- fail (printf "probes.type is %s on the traffic port, where mutual TLS requires a certificate that the kubelet does not have: set probes.type to admin" .Values.probes.type) -}}
{{- end -}}
{{- if and .Values.metrics.enabled (has (toString .Values.metrics.port) (rest $traffic)) -}}
{{- fail (printf "metrics.port is %v, the traffic port, where mutual TLS requires a certificate that Prometheus does not have: set metrics.port to admin" .Values.metrics.port) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.mtls.clients (not (include "common.mtls" .)) -}}
{{- fail "mtls.clients is set but mtls.enabled is not, so every client could connect: enable it, or remove the clients" -}}
{{- end -}}
{{- end -}}

{{- define "service.guards.drain" -}}
{{- $settle := include "common.milliseconds" (list . "drain.settle") | int64 -}}
{{- $deadline := include "common.milliseconds" (list . "drain.deadline") | int64 -}}
{{- if gt $settle $deadline -}}
{{- fail (printf "drain.settle (%v) must not be longer than drain.deadline (%v), which includes it" .Values.drain.settle .Values.drain.deadline) -}}
{{- end -}}
{{- end -}}

{{/* A misplaced setting would be ignored, or would bypass this chart's checks. */}}
{{- define "service.guards.settings" -}}
{{- $sources := dict "listen" "ports.traffic" "admin.listen" "ports.admin" "replica" "the pod's name" "lanes" "cpus" "pin" "pinning" "drain.settle" "drain.settle" "drain.deadline" "drain.deadline" "tls.certificate" "tls.secret" "tls.key" "tls.secret" "config" "config" -}}
{{- if include "common.mtls" . -}}
{{- $sources = merge $sources (dict "tls.clients.ca" "mtls.enabled" "tls.clients.allow" "mtls.clients") -}}
{{- end -}}
{{- if eq .Values.runtime "corelane" -}}
{{- range $key, $source := $sources -}}
{{- $variable := printf "CORELANE_%s" ($key | replace "." "_" | upper) -}}
{{- range $.Values.env -}}
{{- if eq .name $variable -}}
{{- fail (printf "env has %s, which the chart sets from %s: remove it from env" $variable $source) -}}
{{- end -}}
{{- end -}}
{{- $value := $.Values.config -}}
{{- range splitList "." $key -}}
{{- $value = index (ternary $value dict (kindIs "map" $value)) . -}}
{{- end -}}
{{- if not (has (kindOf $value) (list "invalid" "map")) -}}
{{- fail (printf "config.%s is %v, but the chart sets it from %s: remove it from config" $key $value $source) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Callers find a service by its name. */}}
{{- define "service.guards.calls" -}}
{{- with .Values.networkPolicy -}}
{{- if and .enabled .presets.services (not .presets.dns) (not .egress) -}}
{{- fail (printf "networkPolicy.presets.services has %s, but no rule allows DNS, which resolves its name: set networkPolicy.presets.dns to true, or allow your resolver in networkPolicy.egress" (first .presets.services).service) -}}
{{- end -}}
{{- range .callers -}}
{{- if .port -}}
{{- fail (printf "networkPolicy.callers has port %v of %s, but callers use ports.traffic of this service: remove it" .port .service) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* If a single container has none, the service loses its exclusive CPUs. */}}
{{- define "service.guards.guaranteed" -}}
{{- range $list := list "sidecars" "initContainers" -}}
{{- range get $.Values $list | default list -}}
{{- $limits := (.resources | default dict).limits | default dict -}}
{{- $requests := (.resources | default dict).requests | default $limits -}}
{{- range $name := list "cpu" "memory" -}}
{{- if or (not (get $limits $name)) (ne (get $limits $name | toString) (get $requests $name | toString)) -}}
{{- fail (printf "pinning is exclusive, but a container of %s has no equal request and limit of %s: a pod gets exclusive CPUs only if every container has them. Set resources.limits.%s there" $list $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
