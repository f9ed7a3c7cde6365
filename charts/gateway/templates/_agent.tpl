{{/*
The agent that keeps Envoy's endpoints up to date with the API server (upstream.discovery: eds). It is a native sidecar,
that is, a restartable init container. It starts before Envoy, so that Envoy finds its files, and exits after Envoy.
*/}}

{{- define "gateway.agent.folder" -}}
/run/corelane
{{- end -}}

{{/* The Service whose replicas get the requests, unless routes name other services. */}}
{{- define "gateway.agent.service" -}}
{{- .Values.upstream.eds.service | default (include "common.sibling" (list . "server")) -}}
{{- end -}}

{{/* The name of the Role in another team's namespace, which may contain the Roles of several gateways. */}}
{{- define "gateway.agent.role" -}}
{{- printf "%s-%s" .Release.Namespace (include "common.fullname" .) -}}
{{- end -}}

{{/* The ConfigMap with routes and clusters. */}}
{{- define "gateway.routes.name" -}}
{{- include "common.fullname" . | trunc 56 | trimSuffix "-" }}-routes
{{- end -}}

{{/* Takes the root context, a namespace and a name. */}}
{{- define "gateway.agent.metadata" -}}
{{- $root := first . -}}
name: {{ last . | quote }}
{{- if ne (index . 1) $root.Release.Namespace }}
namespace: {{ index . 1 | quote }}
{{- end }}
labels:
  {{- include "common.labels" $root | nindent 2 }}
{{- end -}}

{{- define "gateway.agent.initContainers" -}}
initContainers:
  - name: agent
    {{- include "common.container.image" . | nindent 4 }}
    # A sidecar, which keeps running next to the other containers.
    restartPolicy: Always
    command: [/gateway-agent, endpoints]
    args:
      {{- if include "gateway.dynamic" . }}
      - --routes={{ .Release.Namespace }}/{{ include "gateway.routes.name" . }}
      - --envoy-admin=127.0.0.1:{{ .Values.admin.port }}
      {{- include "gateway.objects.flags" . | nindent 6 }}
      {{- else }}
      {{- range include "gateway.services" . | fromJson }}
      - --service={{ .cluster }}={{ include "gateway.service.watched" . }}
      {{- end }}
      {{- end }}
      {{- if include "gateway.rateLimit.shared" . }}
      - --gateways={{ .Release.Namespace }}/{{ include "common.fullname" . }}:http
      {{- end }}
      {{- if include "gateway.credentials" . }}
      - --credentials=/etc/envoy/credentials.json
      {{- end }}
      - --folder={{ include "gateway.agent.folder" . }}
      - --limit={{ int .Values.upstream.eds.limit }}
      - --listen={{ .Values.stats.address | contains ":" | ternary (printf "[%s]" .Values.stats.address) .Values.stats.address }}:{{ .Values.agent.port }}
      - --log-format=json
    ports:
      - name: agent
        containerPort: {{ .Values.agent.port }}
    # Envoy starts once this probe has passed, which means that each service has its first file.
    startupProbe:
      httpGet: {path: /readyz, port: agent}
      {{- toYaml .Values.agent.probes.startup | nindent 6 }}
    {{- if include "gateway.dynamic" . }}
    # If Envoy rejects its first routes, the pod gets no requests, and the rollout stops.
    readinessProbe:
      httpGet: {path: /routesz, port: agent}
      {{- toYaml .Values.agent.probes.readiness | nindent 6 }}
    {{- end }}
    livenessProbe:
      httpGet: {path: /healthz, port: agent}
      {{- toYaml .Values.agent.probes.liveness | nindent 6 }}
    resources:
      {{- include "gateway.agent.resources" . | nindent 6 }}
    securityContext:
      {{- include "common.container.security" . | nindent 6 }}
    volumeMounts:
      - name: endpoints
        mountPath: {{ include "gateway.agent.folder" . | quote }}
      {{- include "common.token.mount" "agent-token" | nindent 6 }}
      {{- with include "gateway.credentials.secrets" . | fromJson }}
      - name: config
        mountPath: /etc/envoy
        readOnly: true
      {{- range $name, $secret := . }}
      - name: {{ $name }}
        mountPath: /etc/envoy-{{ $name }}
        readOnly: true
      {{- end }}
      {{- end }}
{{- end -}}

{{- define "gateway.agent.volumes" -}}
- name: endpoints
  emptyDir: {medium: Memory, sizeLimit: {{ ternary 1024 16 (ne (include "gateway.dynamic" .) "") }}Mi}
{{ include "common.token.volume" "agent-token" }}
{{- range $name, $secret := include "gateway.credentials.secrets" . | fromJson }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret | quote }}
{{- end }}
{{- end -}}

{{/* Less than a CPU, so that the agent does not get an exclusive CPU. In a Guaranteed pod, requests equal limits,
because otherwise Envoy would not get exclusive CPUs. */}}
{{- define "gateway.agent.resources" -}}
{{- with .Values.agent -}}
{{- $memory := dict "memory" .memory -}}
{{- $requests := merge (dict "cpu" .cpu) $memory -}}
{{- if .resources -}}
{{- toYaml .resources -}}
{{- else -}}
{{- dict "requests" $requests "limits" (ternary $requests $memory (eq $.Values.pinning "exclusive")) | toYaml -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.agent" -}}
{{- if eq (include "gateway.discovery" .) "eds" -}}
{{- with .Values.agent -}}
{{- $given := .resources | default dict -}}
{{- $limits := $given.limits | default dict -}}
{{- $requests := $given.requests | default $limits -}}
{{- range $name := list "cpu" "memory" -}}
{{- $limit := get $limits $name | toString -}}
{{- if and (eq $.Values.pinning "exclusive") $given (or (not $limit) (ne $limit (get $requests $name | toString))) -}}
{{- fail (printf "agent.resources has no equal request and limit of %s, but pinning is exclusive: a pod gets exclusive CPUs only if every container has them. Leave agent.resources empty, and set agent.cpu and agent.memory" $name) -}}
{{- end -}}
{{- end -}}
{{- $cpu := get $requests "cpu" | default .cpu | toString -}}
{{- if and (eq $.Values.pinning "exclusive") (regexMatch "^[0-9]+(000m)?$" $cpu) -}}
{{- fail (printf "%s is %s: the agent would get exclusive CPUs, which belong to Envoy: set it below one CPU, such as 50m" (ternary "agent.resources.requests.cpu" "agent.cpu" (hasKey $requests "cpu")) $cpu) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
