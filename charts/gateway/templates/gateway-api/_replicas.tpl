{{/*
Parts of the BackendTrafficPolicy: how replicas are balanced, judged and limited.
*/}}

{{/* LeastRequest of Envoy Gateway looks at two replicas, and ConsistentHash is Maglev. Takes the root context
and the policy. */}}
{{- define "gateway.api.balancing" -}}
{{- $root := first . -}}
{{- $policy := last . -}}
{{- $balancing := $root.Values.upstream.balancing -}}
{{- $types := dict
  "least-request" "LeastRequest"
  "least-request-p2c" "LeastRequest"
  "round-robin" "RoundRobin"
  "load-aware" "BackendUtilization"
  "ring-hash" "ConsistentHash"
-}}
loadBalancer:
  type: {{ get $types $policy }}
  {{- if eq $policy "load-aware" }}
  backendUtilization:
    {{- with $balancing.loadAware }}
    blackoutPeriod: {{ include "gateway.api.duration" (list $root "upstream.balancing.loadAware.blackout") }}
    weightExpirationPeriod: {{ include "gateway.api.duration" (list $root "upstream.balancing.loadAware.expiry") }}
    weightUpdatePeriod: {{ include "gateway.api.duration" (list $root "upstream.balancing.loadAware.update") }}
    errorUtilizationPenaltyPercent: {{ mulf .errorPenalty 100 | int }}
    {{- with .metrics }}
    metricNamesForComputingUtilization: {{ toJson . }}
    {{- end }}
    {{- end }}
  {{- else if eq $policy "ring-hash" }}
  consistentHash:
    {{- include "gateway.api.hashKey" $balancing.ringHash | nindent 4 }}
  {{- end }}
  {{- if and (ne $policy "ring-hash") (include "common.milliseconds" (list $root "upstream.balancing.slowStart.window") | int64) }}
  slowStart:
    window: {{ include "gateway.api.duration" (list $root "upstream.balancing.slowStart.window") }}
  {{- end }}
{{- end -}}

{{- define "gateway.api.hashKey" -}}
{{- if eq .key "header" -}}
type: Headers
headers:
  - name: {{ .name | quote }}
{{- else if eq .key "query" -}}
type: QueryParams
queryParams:
  - name: {{ .name | quote }}
{{- else if eq .key "source-address" -}}
type: SourceIP
{{- else -}}
type: Cookie
cookie:
  name: {{ .name | quote }}
  {{- with .cookieLife }}
  ttl: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Takes the root context and a service. */}}
{{- define "gateway.api.health" -}}
{{- $root := first . -}}
{{- $service := last . -}}
healthCheck:
  panicThreshold: {{ $root.Values.upstream.health.panicPercent | float64 | int }}
  {{- with $root.Values.upstream.health }}
  active:
    {{- if hasKey $service.health "grpc" }}
    type: GRPC
    grpc: {}
    {{- else if hasKey $service.health "tcp" }}
    type: TCP
    tcp: {}
    {{- else }}
    type: HTTP
    http:
      path: {{ $service.health.path | default .path | quote }}
    {{- end }}
    interval: {{ include "gateway.api.duration" (list $root "upstream.health.interval") }}
    timeout: {{ include "gateway.api.duration" (list $root "upstream.health.timeout") }}
    unhealthyThreshold: {{ int .unhealthyThreshold }}
    healthyThreshold: {{ int .healthyThreshold }}
    {{- if or $service.health.port (not (or $service.health.grpc $service.health.tcp)) }}
    overrides:
      port: {{ $service.healthPort }}
    {{- end }}
  {{- end }}
  {{- with $root.Values.upstream.outliers }}
  passive:
    interval: 1s
    # Only failures to talk to a replica eject it, never its own 5xx: 0 is a number of them that no replica
    # comes to, where no number would mean five.
    splitExternalLocalOriginErrors: true
    consecutiveLocalOriginFailures: {{ int .consecutiveFailures }}
    consecutive5XxErrors: 0
    consecutiveGatewayErrors: 0
    baseEjectionTime: {{ include "gateway.api.duration" (list $root "upstream.outliers.ejectionTime") }}
    maxEjectionPercent: {{ int .maxPercent }}
    {{- with .failurePercent }}
    failurePercentageThreshold: {{ int . }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "gateway.api.limits" -}}
circuitBreaker:
  maxConnections: {{ int .Values.upstream.limits.connections }}
  maxPendingRequests: {{ int .Values.upstream.limits.pending }}
  maxParallelRequests: {{ int .Values.upstream.limits.requests }}
  perEndpoint:
    maxConnections: {{ int .Values.upstream.limits.connectionsPerReplica }}
  retryBudget:
    percent:
      # The schema takes fractions of a percent, as Envoy does.
      numerator: {{ mulf .Values.upstream.retries.budget.percent 100 | int }}
      denominator: 10000
    minRetryConcurrency: {{ int .Values.upstream.retries.budget.min }}
{{- end -}}

{{/* Envoy Gateway has no burst apart from the rate. */}}
{{- define "gateway.api.rateLimit" -}}
{{- with .Values.rateLimit -}}
rateLimit:
  type: Local
  local:
    rules:
      {{- if .perClient.requests }}
      - clientSelectors:
          - sourceCIDR:
              type: Distinct
              value: 0.0.0.0/0
        {{- include "gateway.api.perSecond" .perClient.requests | nindent 8 }}
      {{- end }}
      - {{ include "gateway.api.perSecond" .requests | nindent 8 | trim }}
{{- end -}}
{{- end -}}

{{- define "gateway.api.perSecond" -}}
limit:
  requests: {{ int . }}
  unit: Second
{{- end -}}

{{/* The same bodies as in mode envoy. Refusals before a route is chosen keep Envoy's own words. */}}
{{- define "gateway.api.localReplies" -}}
responseOverride:
  {{- range (include "gateway.envoy.localReplies" . | fromYaml).local_reply_config.mappers }}
  {{- /* The API selects by status alone. */}}
  {{- with .body_format_override.json_format }}
  - source: Local
    match:
      statusCodes:
        - type: Value
          value: {{ int .status }}
    response:
      contentType: application/problem+json
      body:
        type: Inline
        inline: {{ . | toJson | quote }}
  {{- end }}
  {{- end }}
{{- end -}}
