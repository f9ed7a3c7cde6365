{{/*
CPUs and memory. With exclusive pinning, a pod is Guaranteed and requests whole CPUs. The kubelet's static CPU manager
gives exclusive CPUs only to such pods.
*/}}
{{- define "common.resources" -}}
{{- if .Values.resources -}}
{{- toYaml .Values.resources -}}
{{- else if eq .Values.pinning "exclusive" -}}
{{- $both := dict "cpu" (toString .Values.cpus) "memory" .Values.memory -}}
{{- include "common.resources.disk" (list . $both $both) -}}
{{- else -}}
{{/* There is no CPU limit, because its quota would stop all threads at once even while a CPU is idle. */}}
{{- $requests := dict "cpu" "100m" "memory" .Values.memory -}}
{{- include "common.resources.disk" (list . $requests (pick $requests "memory")) -}}
{{- end -}}
{{- end -}}

{{/* Takes the root context, requests and limits, and adds the request and limit for ephemeral storage. */}}
{{- define "common.resources.disk" -}}
{{- $disk := (first .).Values.ephemeralStorage -}}
{{- $requests := ternary (dict "ephemeral-storage" $disk.request) dict (ne ($disk.request | default "") "") -}}
{{- $limits := ternary (dict "ephemeral-storage" $disk.limit) dict (ne ($disk.limit | default "") "") -}}
{{- dict "requests" (merge $requests (index . 1)) "limits" (merge $limits (last .)) | toYaml -}}
{{- end -}}

{{- define "common.guards.cpus" -}}
{{- if not (regexMatch "^[1-9][0-9]*$" (toString .Values.cpus)) -}}
{{- fail (printf "cpus is %v: give a whole number of CPUs, such as 1 or 2. Only whole CPUs can be exclusive, and each of them runs one thread. For less than a CPU, set pinning to shared" .Values.cpus) -}}
{{- end -}}
{{- if and (eq .Values.pinning "exclusive") .Values.resources -}}
{{- include "common.guards.resources" . -}}
{{- end -}}
{{- end -}}

{{/* The reason why a pod would not be Guaranteed with exactly the number of CPUs in cpus. */}}
{{- define "common.guards.resources" -}}
{{- $way := "or set pinning to shared" -}}
{{- $limits := .Values.resources.limits | default dict -}}
{{- $requests := .Values.resources.requests | default $limits -}}
{{- range $name := list "cpu" "memory" -}}
{{- $limit := get $limits $name | toString -}}
{{- $request := get $requests $name | toString -}}
{{- if not $limit -}}
{{- fail (printf "resources.limits.%s is missing, but pinning is exclusive: only a pod with limits of CPU and memory gets exclusive CPUs. Leave resources empty to have them derived from cpus and memory, %s" $name $way) -}}
{{- end -}}
{{- if ne $request $limit -}}
{{- fail (printf "resources.requests.%s is %s but resources.limits.%s is %s, and pinning is exclusive: only a pod whose requests equal its limits gets exclusive CPUs. Give both the same value, %s" $name ($request | default "missing") $name $limit $way) -}}
{{- end -}}
{{- end -}}
{{- $cpu := get $limits "cpu" | toString -}}
{{- if not (regexMatch "^[1-9][0-9]*$" $cpu) -}}
{{- fail (printf "resources.limits.cpu is %s, but pinning is exclusive: give a whole number of CPUs, %s" $cpu $way) -}}
{{- end -}}
{{- if ne $cpu (toString .Values.cpus) -}}
{{- fail (printf "resources.limits.cpu is %s but cpus is %v: set both to the same number, because cpus is also the number of threads" $cpu .Values.cpus) -}}
{{- end -}}
{{- end -}}
