{{/*
Token buckets in each process. With the release scope, a request takes as many tokens as there are gateways, so all
gateways together admit what one bucket holds. The reply has the same form as other local replies (_filters.tpl).
*/}}
{{- define "gateway.envoy.filter.rateLimit" -}}
{{- with .Values.rateLimit -}}
{{- if .enabled -}}
- name: envoy.filters.http.local_ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
    stat_prefix: ingress
    token_bucket: {max_tokens: {{ int .burst }}, tokens_per_fill: {{ int .requests }}, fill_interval: 1s}
    {{- include "gateway.envoy.rateLimit.form" $ | nindent 4 }}
    enable_x_ratelimit_headers: DRAFT_VERSION_03
    {{- with .perClient }}
    {{- if .requests }}
    rate_limits:
    - actions: [{remote_address: {}}]
    # Without a value, each address has a bucket of its own.
    descriptors:
    - entries: [{key: remote_address}]
      token_bucket: {max_tokens: {{ int .burst }}, tokens_per_fill: {{ int .requests }}, fill_interval: 1s}
    max_dynamic_descriptors: {{ int .addresses }}
    {{- end }}
    {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The buckets of keys, which are known only after the client is authenticated. */}}
{{- define "gateway.envoy.filter.keyRateLimits" -}}
{{- if .Values.rateLimit.enabled -}}
{{- with .Values.rateLimit.keys -}}
- name: corelane.key_rate_limits
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
    stat_prefix: ingress
    {{- include "gateway.envoy.rateLimit.form" $ | nindent 4 }}
    rate_limits:
    {{- range . }}
    - actions: [{{ include "gateway.envoy.rateLimit.key" . }}]
    {{- end }}
    descriptors:
    {{- range . }}
    - entries: [{key: {{ include "gateway.rateLimit.keyName" . | quote }}}]
      token_bucket: {max_tokens: {{ int (.burst | default .requests) }}, tokens_per_fill: {{ int .requests }}, fill_interval: 1s}
    {{- end }}
    max_dynamic_descriptors: {{ int $.Values.rateLimit.perClient.addresses }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.rateLimit.form" -}}
filter_enabled: {default_value: {numerator: 100}, runtime_key: rate_limit.enabled}
filter_enforced: {default_value: {numerator: 100}, runtime_key: rate_limit.enforced}
enable_retry_after_header: true
{{- if include "gateway.rateLimit.shared" . }}
local_cluster_rate_limit: {}
{{- end }}
{{- end -}}

{{/* How a request gets the value of a key. A request without the header or the claim has no value and is not limited by
the key. */}}
{{- define "gateway.envoy.rateLimit.key" -}}
{{- if .client -}}
{remote_address: {}}
{{- else if .header -}}
{request_headers: {header_name: {{ .header | lower | quote }}, descriptor_key: {{ include "gateway.rateLimit.keyName" . | quote }}}}
{{- else -}}
{metadata: {descriptor_key: {{ include "gateway.rateLimit.keyName" . | quote }}, metadata_key: {key: envoy.filters.http.jwt_authn, path: [{key: claims}, {key: {{ .claim | quote }}}]}}}
{{- end -}}
{{- end -}}

{{- define "gateway.rateLimit.keyName" -}}
{{- if .client }}remote_address{{ else if .header }}header_{{ .header | lower }}{{ else }}claim_{{ .claim }}{{ end -}}
{{- end -}}

{{/* Not empty if a key is a claim of the token. */}}
{{- define "gateway.rateLimit.claims" -}}
{{- $keys := .Values.rateLimit.keys -}}
{{- range .Values.routes -}}
{{- $keys = concat $keys ((.rateLimit | default dict).keys | default list) -}}
{{- end -}}
{{- range $keys }}{{ .claim }}{{ end -}}
{{- end -}}

{{/* Not empty if limits apply to all gateways together. */}}
{{- define "gateway.rateLimit.shared" -}}
{{- if and (eq .Values.rateLimit.scope "release") (or .Values.rateLimit.enabled (include "gateway.routes.with" (list . "rateLimit"))) }}yes{{ end -}}
{{- end -}}

{{/* The gateways themselves. Envoy divides limits by the number of these endpoints, which the agent writes. */}}
{{- define "gateway.envoy.gateways" -}}
- name: gateways
  connect_timeout: 1s
  type: EDS
  eds_cluster_config:
    eds_config: {path_config_source: {path: {{ include "gateway.agent.folder" . }}/gateways.json}}
{{- end -}}

{{/* The buckets of routes, in addition to the buckets above. Routes that have one enable the filter. */}}
{{- define "gateway.envoy.filter.routeRateLimits" -}}
{{- if include "gateway.dynamic" . }}
- name: corelane.route_rate_limits
  disabled: true
  config_discovery:
    config_source: {{ include "gateway.envoy.file" "rate_limits" }}
    type_urls: [type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit]
{{- else if include "gateway.routes.with" (list . "rateLimit") }}
- name: corelane.route_rate_limits
  disabled: true
  typed_config:
    {{- include "gateway.envoy.buckets" . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* One bucket for all rules of a route, and one for each of its keys. */}}
{{- define "gateway.envoy.buckets" -}}
{{- $route := "{metadata: {descriptor_key: route, metadata_key: {key: corelane, path: [{key: route}]}, source: ROUTE_ENTRY, skip_if_absent: true}}" -}}
"@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
stat_prefix: ingress
{{- include "gateway.envoy.rateLimit.form" . | nindent 0 }}
rate_limits:
- actions: [{{ $route }}]
{{- $actions := list }}
{{- range .Values.routes }}
{{- range (.rateLimit | default dict).keys }}
{{- $actions = append $actions (include "gateway.envoy.rateLimit.key" .) | uniq }}
{{- end }}
{{- end }}
{{- range $actions }}
- actions: [{{ $route }}, {{ . }}]
{{- end }}
descriptors:
{{- range $route := .Values.routes }}
{{- with .rateLimit }}
{{- $interval := include "gateway.seconds" (include "common.duration" (list (.interval | default "1s") (printf "rateLimit.interval of the route %s" $route.name))) }}
- entries: [{key: route, value: {{ $route.name | quote }}}]
  token_bucket: {max_tokens: {{ int (.burst | default .requests) }}, tokens_per_fill: {{ int .requests }}, fill_interval: {{ $interval }}}
{{- range .keys }}
- entries: [{key: route, value: {{ $route.name | quote }}}, {key: {{ include "gateway.rateLimit.keyName" . | quote }}}]
  token_bucket: {max_tokens: {{ int (.burst | default .requests) }}, tokens_per_fill: {{ int .requests }}, fill_interval: {{ $interval }}}
{{- end }}
{{- end }}
{{- end }}
{{- if $actions }}
max_dynamic_descriptors: {{ int .Values.rateLimit.perClient.addresses }}
{{- end }}
{{- end -}}

{{/* A request takes a token for each gateway, so a bucket must hold one for each. */}}
{{- define "gateway.guards.rateLimit" -}}
{{- $buckets := dict -}}
{{- with .Values.rateLimit -}}
{{- if .enabled -}}
{{- $_ := set $buckets "rateLimit.burst" .burst -}}
{{- if .perClient.requests -}}
{{- $_ := set $buckets "rateLimit.perClient.burst" .perClient.burst -}}
{{- end -}}
{{- $_ := merge $buckets (include "gateway.rateLimit.bursts" (list $ "rateLimit" .keys) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- range $route := .Values.routes -}}
{{- with .rateLimit -}}
{{- $name := printf "rateLimit of the route %s:" $route.name -}}
{{- $_ := set $buckets (printf "%s burst" $name) (.burst | default .requests) -}}
{{- $_ := merge $buckets (include "gateway.rateLimit.bursts" (list $ $name .keys) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- if include "gateway.rateLimit.shared" . -}}
{{- if and (ne (include "gateway.discovery" .) "eds") (not (has .Values.listener.address (list "127.0.0.1" "::1"))) -}}
{{- fail (printf "rateLimit.scope is release but replicas are found by %s: the agent that counts the gateways needs upstream.discovery eds. Set it, or set rateLimit.scope to pod" (include "gateway.discovery" .)) -}}
{{- end -}}
{{- $pods := include "common.maxReplicas" . | int -}}
{{- $surge := toString .Values.rollout.maxSurge -}}
{{- $more := trimSuffix "%" $surge | int -}}
{{- $pods = hasSuffix "%" $surge | ternary (div (mul $pods $more | add 99) 100) $more | add $pods -}}
{{- range $name, $burst := $buckets -}}
{{- if lt (int $burst) $pods -}}
{{- fail (printf "%s is %d, but there may be %d gateway pods during a rollout: with rateLimit.scope release a request takes one token for each pod, so none could pass. Set it to %d or more" $name (int $burst) $pods $pods) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The bursts of a limit's keys, by their names in errors. */}}
{{- define "gateway.rateLimit.bursts" -}}
{{- $found := dict -}}
{{- $keys := dict -}}
{{- $prefix := index . 1 -}}
{{- range $number, $key := last . -}}
{{- $name := printf "%s keys[%d]" $prefix $number | replace "rateLimit keys" "rateLimit.keys" -}}
{{- include "gateway.guards.one" (list . $name "client" "header" "claim") -}}
{{- if and .claim (not (or (first $).Values.authentication.jwt.enabled (first $).Values.authentication.oidc.enabled)) -}}
{{- fail (printf "%s.claim is %s but neither authentication.jwt.enabled nor authentication.oidc.enabled is true, so no request has claims: enable one of them, or use header or client" $name .claim) -}}
{{- end -}}
{{- $key := include "gateway.rateLimit.keyName" . -}}
{{- if hasKey $keys $key -}}
{{- fail (printf "%s has the same key as another one: remove one of them" $name) -}}
{{- end -}}
{{- $_ := set $keys $key true -}}
{{- $burst := .burst | default .requests | int -}}
{{- if lt $burst (int .requests) -}}
{{- fail (printf "%s has burst %d and requests %d, so requests could never be reached: increase burst" $name $burst (int .requests)) -}}
{{- end -}}
{{- $_ := set $found (printf "%s.burst" $name) $burst -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
