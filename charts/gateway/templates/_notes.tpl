{{- define "gateway.notes" -}}
{{- $name := include "common.fullname" . -}}
{{ $name }}: {{ if .Values.autoscaling.enabled }}{{ .Values.autoscaling.minReplicas }} to {{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicas }}{{ end }} pods with {{ .Values.cpus }} worker thread(s) each. Replicas:
{{- if .Values.routes }}
{{- range include "gateway.services" . | fromJson }}
  the Service {{ include "gateway.service.name" . }} as cluster {{ .cluster }}
{{- end }}
{{- else if eq (include "gateway.discovery" .) "eds" }}
  the Service {{ include "gateway.agent.service" . }}
{{- else if eq (include "gateway.discovery" .) "dns" }}
  {{ include "gateway.envoy.upstreamHost" . }}:{{ .Values.upstream.dns.port }}
{{- else }}
{{- range .Values.upstream.endpoints }}
  {{ .address }}:{{ .port }}
{{- end }}
{{- end }}
{{- if and (eq (include "gateway.discovery" .) "eds") (not .Values.agent.rbac) }}

agent.rbac is false. The service account {{ include "common.serviceAccountName" . }} of {{ .Release.Namespace }} must be allowed to list and watch endpointslices
(discovery.k8s.io) in: {{ include "gateway.namespaces" . | fromJsonArray | join ", " }}
{{- if include "gateway.dynamic" . }}
It must also be allowed to list and watch the ConfigMap {{ include "gateway.routes.name" . }} in {{ .Release.Namespace }}.
{{- end }}
{{- end }}
{{ include "common.notes.cpus" . }}
{{- include "common.notes.sysctls" . }}

Send a request:
  {{- $namespace := ternary (include "gateway.api.podNamespace" .) .Release.Namespace (eq .Values.mode "gatewayAPI") }}
  {{- $service := ternary (include "gateway.api.podName" .) $name (eq .Values.mode "gatewayAPI") }}
  kubectl --namespace {{ $namespace }} port-forward service/{{ $service }} 8080:{{ .Values.service.port }} >/dev/null & curl -i --retry 9 --retry-connrefused http://127.0.0.1:8080/; kill $!
  {{- if and .Values.tls.enabled (eq .Values.mode "envoy") }}
  kubectl --namespace {{ .Release.Namespace }} port-forward service/{{ $name }} 8443:{{ .Values.service.httpsPort }} >/dev/null & curl -ik --retry 9 --retry-connrefused https://127.0.0.1:8443/; kill $!
  {{- end }}

{{ if .Values.routes -}}
An entry of the access log without upstream is a reply of the gateway itself, such as the 404 of a request that
no route matches. The access log (kubectl logs) contains the reason.
{{- else -}}
The reply header corelane-replica names the replica. A reply without it comes from the gateway itself. The
access log (kubectl logs) contains the reason.
{{- end }} Statuses from {{ .Values.accessLog.status }} on are always logged.
{{- if eq .Values.mode "gatewayAPI" }}

Envoy Gateway creates the pods in the namespace {{ include "gateway.api.podNamespace" . }}. Check that it accepted all objects:
  kubectl --namespace {{ .Release.Namespace }} describe gateway,httproute,clienttrafficpolicy,backendtrafficpolicy {{ $name }}
{{- end }}
{{- end -}}
