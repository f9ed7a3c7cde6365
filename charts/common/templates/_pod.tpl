{{/*
Parts of a pod. The first two are for every pod of the charts, including helm test pods.
*/}}

{{/* Pod Security Standards, profile "restricted". */}}
{{- define "common.pod.security" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "common.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The pod's identity and permissions. */}}
{{- define "common.pod.identity" -}}
serviceAccountName: {{ include "common.serviceAccountName" . | quote }}
automountServiceAccountToken: false
# A Service named corelane-... would add CORELANE_... variables, which the server rejects as unknown
# settings.
enableServiceLinks: false
{{- with include "common.imagePullSecrets" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "common.pod.securityContext" -}}
{{ include "common.pod.security" . }}
{{- with merge (dict) .Values.sysctls (.Values.unsafeSysctls | default dict) }}
sysctls:
  {{- range $name, $value := . }}
  - name: {{ $name | quote }}
    value: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The pod's placement. */}}
{{- define "common.pod.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if .Values.topologySpread }}
topologySpreadConstraints:
  {{- range .Values.topologySpread }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "common.selectorLabels" $ | nindent 8 }}
    # Spreads the pods of one rollout, regardless of the old pods.
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}

{{/*
Parts of a container.
*/}}

{{- define "common.container.image" -}}
{{- include "common.container.imageOf" (list . "image") -}}
{{- end -}}

{{/* Takes the root context and the dotted name of a value with an image. */}}
{{- define "common.container.imageOf" -}}
image: {{ include "common.imageOf" . | quote }}
imagePullPolicy: {{ (include "common.value" . | fromYaml).pullPolicy }}
# If the pod fails, the last lines of its log become part of its state, which kubectl describe
# shows.
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{/* The three probes. Takes the root context, the port, and the paths of readiness and liveness. They use httpGet,
because an exec probe would run on the pod's own CPUs. */}}
{{- define "common.container.probes" -}}
{{- $paths := dict "startup" .ready "readiness" .ready "liveness" .live -}}
{{- range $probe := list "startup" "readiness" "liveness" }}
{{ $probe }}Probe:
  httpGet:
    path: {{ get $paths $probe | quote }}
    port: {{ $.port }}
  {{- toYaml (get $.root.Values.probes $probe) | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "common.image" -}}
{{- include "common.imageOf" (list . "image") -}}
{{- end -}}

{{/* An image, by digest if there is one, from its own registry or the registry of all charts. Takes the root context
and the dotted name of the value. */}}
{{- define "common.imageOf" -}}
{{- $root := first . -}}
{{- $image := include "common.value" . | fromYaml -}}
{{- include "common.guards.renamed" (list $root.Values.global "global." (dict "imageRegistry" "global.registry")) -}}
{{- $registry := $image.registry | default (ternary "" $root.Values.global.registry (include "common.image.host" $image.repository | ne "")) -}}
{{- if not (or $registry (include "common.image.host" $image.repository)) -}}
{{- fail (printf "global.registry is empty: set it to the registry of all images, such as registry.example/corelane, or to docker.io/library for images that were loaded into the nodes. For the image %s alone, set %s.registry" $image.repository (last .)) -}}
{{- end -}}
{{- list $registry $image.repository | compact | join "/" -}}
{{- if $image.digest -}}
@{{ $image.digest }}
{{- else -}}
:{{ $image.tag | default $root.Chart.AppVersion | toJson | trimAll "\"" }}
{{- end -}}
{{- end -}}

{{/* The registry at the beginning of an image name, according to the rule of container runtimes, or nothing. */}}
{{- define "common.image.host" -}}
{{- regexFind "^([^/]*[.:][^/]*|localhost)/" . | trimSuffix "/" -}}
{{- end -}}

{{/* A map of the values as YAML. Takes the root context and the map's dotted name. */}}
{{- define "common.value" -}}
{{- $value := (first .).Values -}}
{{- range last . | splitList "." -}}
{{- $value = index $value . -}}
{{- end -}}
{{- toYaml $value -}}
{{- end -}}

{{- define "common.imagePullSecrets" -}}
{{- with concat (.Values.imagePullSecrets | default list) (.Values.global.imagePullSecrets | default list) | uniq -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/*
Parts of a Deployment outside its pod template.
*/}}

{{/* A replica count here would override the autoscaler's decision, unless the autoscaler has not made one yet. */}}
{{- define "common.deployment.rollout" -}}
{{- if or (not .Values.autoscaling.enabled) .Values.autoscaling.handover -}}
replicas: {{ .Values.replicas }}
{{ end -}}
revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
minReadySeconds: {{ .Values.minReadySeconds }}
selector:
  matchLabels:
    {{- include "common.selectorLabels" . | nindent 4 }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    {{- toYaml .Values.rollout | nindent 4 }}
{{- end -}}

{{/* Annotations of the pods. Takes the root context, the configuration, and the location of the metrics. Pods read the
configuration only once, so its checksum makes Kubernetes replace them when it changes. Without a port, there are no
annotations for Prometheus. */}}
{{- define "common.podAnnotations" -}}
{{- $own := dict "checksum/config" (sha256sum .config) -}}
{{- $scrape := dict
  "prometheus.io/scrape" "true"
  "prometheus.io/port" (toString .port)
  "prometheus.io/path" .path
-}}
{{- $told := and .port (ne (get .root.Values "prometheusAnnotations" | toString) "false") | empty | not -}}
{{- merge $own (.root.Values.podAnnotations | default dict) (ternary $scrape dict $told) | toYaml -}}
{{- end -}}
