{{- define "service.notes" -}}
{{ include "common.fullname" . }}: {{ if .Values.autoscaling.enabled }}{{ .Values.autoscaling.minReplicas }} to {{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicas }}{{ end }} replicas of {{ include "common.image" . }}
{{- include "common.notes.sysctls" . }}
{{- if .Values.networkPolicy.enabled }}

A NetworkPolicy admits gateways of {{ .Values.routes.gateway.namespace | default "this namespace" }}, and Prometheus on the port of the metrics. It lets the service
itself reach {{ if .Values.networkPolicy.presets.dns }}DNS and {{ end }}what networkPolicy.presets and networkPolicy.egress name.
{{- end }}
{{- end -}}

{{/* What a release without a gateway shows in addition. */}}
{{- define "service.notes.alone" -}}
{{ include "common.notes.cpus" . }}

Send a request to a replica directly:
  kubectl --namespace {{ .Release.Namespace }} port-forward deployment/{{ include "common.fullname" . }} 8080:{{ .Values.ports.traffic }} >/dev/null & curl -ik --retry 9 --retry-connrefused http{{ if .Values.tls.secret }}s{{ end }}://127.0.0.1:8080/; kill $!
{{- end -}}

{{/* How a gateway finds the service. */}}
{{- define "service.notes.routes" -}}
{{- $routes := .Values.routes -}}
{{- $host := first ($routes.hosts | default list) | default "any.example" -}}
{{- if $routes.enabled -}}
The HTTPRoute {{ include "common.fullname" . }} leads requests of the gateway {{ $routes.gateway.name }} to it:
  kubectl --namespace {{ $routes.gateway.namespace | default .Release.Namespace }} port-forward service/{{ $routes.gateway.name }} 8080:80 >/dev/null & curl -i --retry 9 --retry-connrefused -H 'host: {{ $host }}' http://127.0.0.1:8080{{ first $routes.paths }}; kill $!
{{- else -}}
Requests of a gateway come with this entry in its values (charts/gateway), or with routes.enabled here if it serves route
objects (routeObjects.enabled):
  routes:
    - name: {{ include "common.fullname" . }}
      {{- with $routes.hosts }}
      hosts: {{ toJson . }}
      {{- end }}
      path: {prefix: {{ first $routes.paths | quote }}}
      service: {name: {{ include "common.fullname" . }}, namespace: {{ .Release.Namespace }}}
      {{- if eq .Values.probes.type "http" }}
      health: {path: {{ .Values.probes.path | default "/" | quote }}, port: {{ .Values.probes.port | default .Values.ports.traffic }}}
      {{- else if ne .Values.probes.type "admin" }}
      health: { {{- .Values.probes.type }}: true}
      {{- if eq .Values.probes.type "grpc" }}
      protocol: grpc
      {{- end }}
      {{- end }}
{{- end -}}
{{- end -}}
