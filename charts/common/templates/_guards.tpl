{{/*
Checks that a schema cannot express, for values that several charts have. Each error names the value and the fix.
*/}}
{{- define "common.guards" -}}
{{- include "common.guards.cpus" . -}}
{{- include "common.guards.rollout" . -}}
{{- include "common.guards.autoscaling" . -}}
{{- include "common.guards.sysctls" . -}}
{{- end -}}

{{/* Old values that would be ignored. Takes the values, the prefix of their keys, and a map from old keys to new
keys. */}}
{{- define "common.guards.renamed" -}}
{{- $values := first . -}}
{{- $found := list -}}
{{- range $old, $new := last . -}}
{{- $value := $values -}}
{{- range $key := splitList "." $old -}}
{{- $value = index (ternary $value dict (kindIs "map" $value)) $key -}}
{{- end -}}
{{- if ne (kindOf $value) "invalid" -}}
{{- $found = printf "%s%s is now %s" (index $ 1) $old $new | append $found -}}
{{- end -}}
{{- end -}}
{{- if $found -}}
{{- fail (printf "keys of 0.2.0: %s. The README of the chart has the whole table" (join "; " $found)) -}}
{{- end -}}
{{- end -}}

{{/* Keys of charts/server 0.2.0, and the corresponding keys of charts/service. A parent chart rejects them even if that
chart is disabled. */}}
{{- define "common.renamed" -}}
exclusive: pinning (exclusive or shared)
lanes: cpus
pin: pinning
extraEnv: env
extraVolumes: volumes
extraVolumeMounts: volumeMounts
shutdown: drain.deadline, to which the grace period adds 5 seconds
database: config.database, with volumes and volumeMounts for its Secrets
static: config.static, with volumes and volumeMounts
auth: config.auth, with volumes and volumeMounts
prometheusAnnotations: metrics.enabled
config.drain: drain
networkPolicy.database: networkPolicy.presets.postgresql
networkPolicy.spans: networkPolicy.egress
{{- end -}}

{{- define "common.guards.rollout" -}}
{{- $none := list "0" "0%" -}}
{{- if and (has (toString .Values.rollout.maxSurge) $none) (has (toString .Values.rollout.maxUnavailable) $none) -}}
{{- fail "rollout.maxSurge and rollout.maxUnavailable are both 0, so no pod can be replaced: set one of them to 1" -}}
{{- end -}}
{{- end -}}

{{- define "common.guards.autoscaling" -}}
{{- $requests := (.Values.resources | default dict).requests | default dict -}}
{{- $known := or (eq .Values.pinning "exclusive") (get $requests "cpu") -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas (%d) must not be above autoscaling.maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if and .handover (ge (int $.Values.replicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.handover is true, so the autoscaler starts with %d replicas, but autoscaling.maxReplicas is %d: raise it for the handover" (add $.Values.replicas 1) (int .maxReplicas)) -}}
{{- end -}}
{{- if eq (get . "mode") "keda" -}}
{{- if not .keda.prometheus -}}
{{- fail "autoscaling.mode is keda, but autoscaling.keda.prometheus is empty: set it to the URL of Prometheus, such as http://corelane-monitoring-prometheus.corelane.svc" -}}
{{- end -}}
{{- if .metrics -}}
{{- fail "autoscaling.mode is keda, but autoscaling.metrics is for mode hpa: remove it, and set autoscaling.keda.query for another metric than the required replicas" -}}
{{- end -}}
{{- else if not (or .cpuPercent .metrics) -}}
{{- fail "autoscaling.enabled is true but no metric is configured: set autoscaling.cpuPercent or autoscaling.metrics" -}}
{{- end -}}
{{- if and .cpuPercent (ne (get . "mode") "keda") (not $known) -}}
{{- fail (printf "autoscaling.cpuPercent is %v, but with pinning shared a pod requests almost no CPU: set resources.requests.cpu, or set autoscaling.cpuPercent to 0 and scale by autoscaling.metrics" .cpuPercent) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A kubelet does not start a pod with a sysctl that it considers unsafe. */}}
{{- define "common.guards.sysctls" -}}
{{- range $name := list "net.ipv4.tcp_rmem" "net.ipv4.tcp_wmem" -}}
{{- if and (get $.Values.sysctls $name) (semverCompare "<1.32.0-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "sysctls has %s, which is safe from Kubernetes 1.32 on, but this is %s: remove it" $name $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- if hasKey (.Values.unsafeSysctls | default dict) "net.ipv4.tcp_migrate_req" -}}
{{- fail "unsafeSysctls has net.ipv4.tcp_migrate_req: remove it. On kernels without its fix, a connection that moves to another listener is not accepted there. Pods drain instead" -}}
{{- end -}}
{{- end -}}

{{/*
Durations. Each template takes a list of the root context and the dotted name of a value, so that
an error can name the value.
*/}}

{{/* A duration such as 250ms or 5s, in milliseconds. */}}
{{- define "common.milliseconds" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $value := $root.Values -}}
{{- range splitList "." $name -}}
{{- $value = index $value . -}}
{{- end -}}
{{- include "common.duration" (list $value $name) -}}
{{- end -}}

{{/* The same for a value in a list, which has no dotted name. Takes the value and its name in errors. */}}
{{- define "common.duration" -}}
{{- $value := first . -}}
{{- if not (regexMatch "^[0-9]{1,8}(ms|s|m|h)$" (toString $value)) -}}
{{- fail (printf "%s is %v: give a whole number with one of the units ms, s, m, h, such as 250ms or 5s, and at most 8 digits" (last .) $value) -}}
{{- end -}}
{{- $factors := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- mul (regexFind "^[0-9]+" $value | int64) (get $factors (regexFind "[a-z]+$" $value)) -}}
{{- end -}}

{{/* Seconds, rounded up, because Kubernetes accepts only whole seconds. */}}
{{- define "common.seconds" -}}
{{- div (add (include "common.milliseconds" . | int64) 999) 1000 -}}
{{- end -}}
