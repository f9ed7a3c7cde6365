{{/*
Which CPU each worker runs on. Envoy pins its first worker to the first CPU that it may use, and so on. On
CPUs of the pod's own that is right; on shared ones the workers of all pods of a node would meet on the
first CPUs.
*/}}
{{- define "gateway.envoy.workers" -}}
{{- if eq (include "gateway.workers.affinity" .) "on" }}
enable_worker_cpu_affinity: true
{{- end }}
{{- end -}}

{{/* on or off. A worker alone has nothing to be kept apart from. */}}
{{- define "gateway.workers.affinity" -}}
{{- $chosen := toString .Values.workers.affinity -}}
{{- if eq $chosen "auto" -}}
{{- $local := has .Values.listener.address (list "127.0.0.1" "::1") -}}
{{- ternary "on" "off" (and .Values.exclusive (gt (int .Values.cpus) 1) (not $local)) -}}
{{- else -}}
{{- ternary "on" "off" (has $chosen (list "on" "true")) -}}
{{- end -}}
{{- end -}}

{{/* A program in the kernel chooses the worker (SO_ATTACH_REUSEPORT_CBPF), which takes no privilege. */}}
{{- define "gateway.envoy.locality" -}}
{{- if .Values.workers.locality }}
connection_balance_config: {cpu_locality_balance: {}}
{{- end }}
{{- end -}}

{{- define "gateway.guards.workers" -}}
{{- $pinned := eq (include "gateway.workers.affinity" .) "on" -}}
{{- if and $pinned (not .Values.exclusive) -}}
{{- fail "workers.affinity is on but exclusive is false: the workers of all gateways of a node would be pinned to the same CPUs. Set workers.affinity to auto, or exclusive to true" -}}
{{- end -}}
{{- if and .Values.workers.locality (not $pinned) -}}
{{- fail "workers.locality is true but no worker is pinned: set workers.affinity to on with exclusive true, or workers.locality to false" -}}
{{- end -}}
{{- end -}}
