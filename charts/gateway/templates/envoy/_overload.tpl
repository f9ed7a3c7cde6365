{{/*
What Envoy does before it runs out of memory or file descriptors. Envoy accepts a load-shed point with any name, so the
tests look for each name in the binary.
*/}}
{{- define "gateway.envoy.overload" -}}
{{- $monitor := include "gateway.overload.monitor" . -}}
overload_manager:
  # resetStreams resets at most 50 streams per worker each time, and only if the pressure has
  # changed since the last time.
  refresh_interval: 0.010s
  # Streams are counted from 4 KiB, in eight classes, each of which is twice as large as the
  # previous one. A stream that its client does not read holds about 128 KiB.
  buffer_factory_config: {minimum_account_to_track_power_of_two: 12}
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: {{ int .Values.listener.connections }}
  {{- if eq $monitor "cgroup" }}
  - name: envoy.resource_monitors.cgroup_memory
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.cgroup_memory.v3.CgroupMemoryConfig
  {{- end }}
  {{- if ne $monitor "none" }}
  - name: envoy.resource_monitors.fixed_heap
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig
      max_heap_size_bytes: {{ include "gateway.overload.heapBytes" . }}
  {{- end }}
  {{- if ne $monitor "none" }}
  {{- with include "gateway.overload.actions" . }}
  actions:
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "gateway.overload.points" . }}
  loadshed_points:
  {{- . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* Envoy exits immediately if its cgroup has no memory files, as on a host. */}}
{{- define "gateway.overload.monitor" -}}
{{- if ne .Values.overload.monitor "auto" -}}
{{- .Values.overload.monitor -}}
{{- else if has .Values.listener.address (list "127.0.0.1" "::1") -}}
heap
{{- else -}}
cgroup
{{- end -}}
{{- end -}}

{{- define "gateway.overload.heapBytes" -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- mul (regexFind "^[0-9]+" .Values.memory | int64) (get $units (regexFind "[KMG]i$" .Values.memory)) -}}
{{- end -}}

{{/* The name of the monitor that triggers actions, except for actions that the heap triggers. */}}
{{- define "gateway.overload.trigger" -}}
envoy.resource_monitors.{{ get (dict "cgroup" "cgroup_memory" "heap" "fixed_heap") (include "gateway.overload.monitor" .) }}
{{- end -}}

{{/* A percentage as the fraction that Envoy expects. */}}
{{- define "gateway.overload.fraction" -}}
{{- printf "%.2f" (divf . 100) -}}
{{- end -}}

{{/* Takes the name of the monitor and two percentages. */}}
{{- define "gateway.overload.scaled" -}}
{name: {{ index . 0 }}, scaled: {scaling_threshold: {{ include "gateway.overload.fraction" (index . 1) }}, saturation_threshold: {{ include "gateway.overload.fraction" (index . 2) }}}}
{{- end -}}

{{- define "gateway.overload.threshold" -}}
triggers: [{name: {{ include "gateway.overload.trigger" (index . 0) }}, threshold: {value: {{ include "gateway.overload.fraction" (index . 1) }}}}]
{{- end -}}

{{- define "gateway.overload.actions" -}}
{{- with .Values.overload }}
{{- if .reduceTimeouts.from }}
- name: envoy.overload_actions.reduce_timeouts
  triggers:
  - {{ include "gateway.overload.scaled" (list (include "gateway.overload.trigger" $) .reduceTimeouts.from .reduceTimeouts.to) }}
  typed_config:
    "@type": type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig
    timer_scale_factors:
    - {timer: HTTP_DOWNSTREAM_CONNECTION_IDLE, min_timeout: 2s}
    - {timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 5s}
{{- end }}
{{- if .resetStreams.from }}
- name: envoy.overload_actions.reset_high_memory_stream
  triggers:
  # The heap shrinks with each reset stream. The cgroup also counts memory that the allocator keeps
  # for later streams, so it reacts late.
  - {{ include "gateway.overload.scaled" (list "envoy.resource_monitors.fixed_heap" .resetStreams.from 100) }}
  {{- if and .resetStreams.pod (eq (include "gateway.overload.monitor" $) "cgroup") }}
  - {{ include "gateway.overload.scaled" (list "envoy.resource_monitors.cgroup_memory" .resetStreams.pod 100) }}
  {{- end }}
{{- end }}
{{- range $key, $name := dict "shrinkHeap" "shrink_heap" "disableKeepalive" "disable_http_keepalive" "refuseRequests" "stop_accepting_requests" }}
{{- with get $.Values.overload $key }}
- name: envoy.overload_actions.{{ $name }}
  {{- include "gateway.overload.threshold" (list $ .) | nindent 2 }}
  {{- if eq $key "shrinkHeap" }}
  # By default, the allocator may keep 100 MB, so that a small pod could reject requests
  # indefinitely.
  typed_config:
    "@type": type.googleapis.com/envoy.config.overload.v3.ShrinkHeapConfig
    timer_interval: 1s
    max_unfreed_memory_bytes: {{ div (include "gateway.overload.heapBytes" $) 16 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "gateway.overload.points" -}}
{{- $names := dict
  "refuseConnections" (list "tcp_listener_accept")
  "goAway" (list "http2_server_go_away_on_dispatch" "http3_server_go_away_on_dispatch")
  "abortRequests" (list "http1_server_abort_dispatch")
-}}
{{- range $key, $points := $names }}
{{- with get $.Values.overload $key }}
{{- $threshold := . }}
{{- range $points }}
- name: envoy.load_shed_points.{{ . }}
  {{- include "gateway.overload.threshold" (list $ $threshold) | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Which CPU each worker runs on. Envoy pins its first worker to the first CPU that it may use, and so on. This is right
for exclusive CPUs. On shared CPUs, the workers of all pods on a node would share the first CPUs.
*/}}
{{- define "gateway.envoy.workers" -}}
{{- if eq (include "gateway.workers.affinity" .) "on" }}
enable_worker_cpu_affinity: true
{{- end }}
{{- end -}}

{{/* on or off. A single worker gains nothing from pinning. */}}
{{- define "gateway.workers.affinity" -}}
{{- $chosen := toString .Values.workers.affinity -}}
{{- if eq $chosen "auto" -}}
{{- $local := has .Values.listener.address (list "127.0.0.1" "::1") -}}
{{- ternary "on" "off" (and (eq .Values.pinning "exclusive") (gt (int .Values.cpus) 1) (not $local)) -}}
{{- else -}}
{{- ternary "on" "off" (has $chosen (list "on" "true")) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.workers" -}}
{{- $pinned := eq (include "gateway.workers.affinity" .) "on" -}}
{{- if and $pinned (ne .Values.pinning "exclusive") -}}
{{- fail "workers.affinity is on but pinning is shared: the workers of all gateways of a node would be pinned to the same CPUs. Set workers.affinity to auto, or pinning to exclusive" -}}
{{- end -}}
{{- end -}}
