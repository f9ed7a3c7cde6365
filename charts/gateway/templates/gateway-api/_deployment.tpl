{{/*
The Deployment, Service, autoscaler and disruption budget of an EnvoyProxy, from the values that mode envoy
makes its own objects of.
*/}}

{{- define "gateway.api.deployment" -}}
name: {{ include "gateway.api.podName" . | quote }}
{{- if not .Values.autoscaling.enabled }}
replicas: {{ .Values.replicas }}
{{- end }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    {{- toYaml .Values.rollout | nindent 4 }}
pod:
  {{- include "gateway.api.pod" . | nindent 2 }}
container:
  image: {{ include "common.image" . | quote }}
  resources:
    {{- include "common.resources" . | nindent 4 }}
  {{- with .Values.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
patch:
  type: StrategicMerge
  value:
    {{- include "gateway.api.deploymentPatch" . | nindent 4 }}
{{- end -}}

{{- define "gateway.api.pod" -}}
labels:
  {{- dict "corelane/service" (include "common.fullname" .) | mergeOverwrite (merge dict (.Values.podLabels | default dict) (.Values.labels | default dict)) | toYaml | nindent 2 }}
{{- $scrape := dict "prometheus.io/scrape" "true" "prometheus.io/port" "19001" "prometheus.io/path" "/stats/prometheus" }}
{{- with merge dict (.Values.podAnnotations | default dict) (ternary $scrape dict .Values.prometheusAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "gateway.api.securityContext" . | nindent 2 }}
{{- with concat (.Values.imagePullSecrets | default list) (.Values.global.imagePullSecrets | default list) | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- include "gateway.api.placement" . }}
{{- end -}}

{{/* Without the range of local ports: every useful range contains Envoy Gateway's own ports, 19000 to
19003. A listener whose port is in use does not start. */}}
{{- define "gateway.api.securityContext" -}}
{{- $context := include "common.pod.securityContext" . | fromYaml -}}
{{- $sysctls := list -}}
{{- range $context.sysctls -}}
{{- if ne .name "net.ipv4.ip_local_port_range" -}}
{{- $sysctls = append $sysctls . -}}
{{- end -}}
{{- end -}}
{{- omit $context "sysctls" | toYaml -}}
{{- with $sysctls }}
sysctls:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* That of common.pod.placement, for pods with Envoy Gateway's labels. */}}
{{- define "gateway.api.placement" -}}
{{- $own := include "gateway.api.podSelector" . | fromYaml -}}
{{- $placement := include "common.pod.placement" . | fromYaml -}}
{{- range $placement.topologySpreadConstraints -}}
{{- $_ := set .labelSelector "matchLabels" $own -}}
{{- end -}}
{{- with $placement }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What EnvoyProxy has no field for. */}}
{{- define "gateway.api.deploymentPatch" -}}
spec:
  minReadySeconds: {{ .Values.minReadySeconds }}
  revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
  template:
    spec:
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ include "gateway.shutdown.graceSeconds" . }}
      containers:
        - name: envoy
          # Envoy Gateway starts a program on PATH; the image has it in its root.
          command: [/envoy]
          # Here and not above, which is for the shutdown manager, too: that writes a file when the drain ends.
          # Envoy Gateway's defaults meet the other requirements of "restricted".
          securityContext:
            readOnlyRootFilesystem: true
          imagePullPolicy: {{ .Values.image.pullPolicy }}
        - name: shutdown-manager
          # Requests equal to limits: only then the pod is Guaranteed, and Envoy has CPUs of its own.
          resources:
            {{- $both := dict "cpu" "50m" "memory" "64Mi" }}
            {{- dict "requests" $both "limits" $both | toYaml | nindent 12 }}
{{- end -}}

{{- define "gateway.api.service" -}}
name: {{ include "gateway.api.podName" . | quote }}
type: {{ .Values.service.type }}
{{- with .Values.service.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if ne .Values.service.type "ClusterIP" }}
externalTrafficPolicy: {{ .Values.service.externalTrafficPolicy }}
{{- end }}
{{- if eq .Values.service.type "LoadBalancer" }}
{{- with .Values.service.loadBalancerClass }}
loadBalancerClass: {{ . | quote }}
{{- end }}
{{- with .Values.service.loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
patch:
  type: StrategicMerge
  value:
    spec:
      internalTrafficPolicy: {{ .Values.service.internalTrafficPolicy }}
      {{- with include "gateway.api.nodePorts" . }}
      ports:
        {{- . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- define "gateway.api.nodePorts" -}}
{{- range list (list .Values.service.port .Values.service.nodePort) (list .Values.service.httpsPort .Values.service.httpsNodePort) -}}
{{- if index . 1 }}
- port: {{ index . 0 }}
  protocol: TCP
  nodePort: {{ index . 1 }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "gateway.api.scaling" -}}
{{- with include "common.horizontalPodAutoscaler" . | fromYaml }}
envoyHpa:
  {{- pick .spec "minReplicas" "maxReplicas" "metrics" "behavior" | toYaml | nindent 2 }}
{{- end }}
{{- with include "common.podDisruptionBudget" . | fromYaml }}
envoyPDB:
  {{- pick .spec "maxUnavailable" | toYaml | nindent 2 }}
  patch:
    type: StrategicMerge
    value:
      spec:
        {{- pick .spec "unhealthyPodEvictionPolicy" | toYaml | nindent 8 }}
{{- end }}
{{- end -}}
