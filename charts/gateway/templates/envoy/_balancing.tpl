{{/*
Which replica takes the next request: the policy, its settings, and the hash key of the routes.
*/}}
{{- define "gateway.envoy.balancing" -}}
{{- $extensions := dict
  "least-request" (list "least_request" "LeastRequest")
  "least-request-p2c" (list "least_request" "LeastRequest")
  "round-robin" (list "round_robin" "RoundRobin")
  "load-aware" (list "client_side_weighted_round_robin" "ClientSideWeightedRoundRobin")
  "ring-hash" (list "ring_hash" "RingHash") -}}
{{- $policy := .Values.upstream.balancing.policy -}}
{{- $extension := get $extensions $policy -}}
load_balancing_policy:
  policies:
  - typed_extension_config:
      name: envoy.load_balancing_policies.{{ first $extension }}
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.{{ first $extension }}.v3.{{ last $extension }}
        {{- with include (printf "gateway.envoy.balancing.%s" $policy) . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "gateway.envoy.slowStart" . }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}

{{/* Of several that have the fewest, one at random: gateways that start together do not agree. */}}
{{- define "gateway.envoy.balancing.least-request" -}}
selection_method: FULL_SCAN
{{- end -}}

{{- define "gateway.envoy.balancing.least-request-p2c" -}}
selection_method: N_CHOICES
choice_count: {{ int (.Values.upstream.balancing.choices | default 2) }}
{{- end -}}

{{- define "gateway.envoy.balancing.round-robin" -}}{{- end -}}

{{- define "gateway.envoy.balancing.load-aware" -}}
{{- $values := .Values.upstream.balancing.loadAware -}}
{{- with $values.metrics -}}
metric_names_for_computing_utilization: {{ toJson . }}
{{ end -}}
blackout_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.blackout") }}
weight_expiration_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.expiry") }}
weight_update_period: {{ include "gateway.duration" (list $ "upstream.balancing.loadAware.update") }}
error_utilization_penalty: {{ $values.errorPenalty }}
{{- end -}}

{{- define "gateway.envoy.balancing.ring-hash" -}}
{{- with .Values.upstream.balancing.ringHash.boundPercent -}}
consistent_hashing_lb_config: {hash_balance_factor: {{ int . }}}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.slowStart" -}}
{{- if include "common.milliseconds" (list . "upstream.balancing.slowStart.window") | int64 -}}
{{- with .Values.upstream.balancing.slowStart -}}
slow_start_config:
  slow_start_window: {{ include "gateway.duration" (list $ "upstream.balancing.slowStart.window") }}
  min_weight_percent: {value: {{ int .minWeightPercent }}}
  # The filter's schema demands a runtime key; nothing sets it.
  aggression: {default_value: {{ .aggression }}, runtime_key: unset}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* By what ring-hash chooses, for a route. */}}
{{- define "gateway.envoy.hashPolicy" -}}
{{- if eq .Values.upstream.balancing.policy "ring-hash" -}}
{{- with .Values.upstream.balancing.ringHash -}}
hash_policy:
{{- if eq .key "header" }}
- header: {header_name: {{ .name | quote }}}
{{- else if eq .key "query" }}
- query_parameter: {name: {{ .name | quote }}}
{{- else if eq .key "source-address" }}
- connection_properties: {source_ip: true}
{{- else if .cookieLife }}
- cookie: {name: {{ .name | quote }}, path: /, ttl: {{ include "gateway.duration" (list $ "upstream.balancing.ringHash.cookieLife") }}}
{{- else }}
- cookie: {name: {{ .name | quote }}}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
