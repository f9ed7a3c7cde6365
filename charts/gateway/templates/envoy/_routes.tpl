{{/*
Where each request goes, for each listener. The routes are in the configuration or in the file that the agent writes.
Takes the root context and the listener.
*/}}
{{- define "gateway.envoy.routes" -}}
{{- $listener := .listener -}}
{{- with .root -}}
{{- if include "gateway.dynamic" . -}}
rds: {route_config_name: ingress, config_source: {{ include "gateway.envoy.file" "all_routes" }}}
{{- /* All listeners have the same routes, because a configuration with many routes would not fit into a ConfigMap
twice. */}}
{{- else if or (eq $listener "plain") (and (eq $listener "tls") (eq .Values.tls.plain "redirect")) -}}
route_config: &routes
  {{- include "gateway.envoy.routeConfig" . | nindent 2 }}
{{- else -}}
route_config: *routes
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A virtual host for the host names that have the same routes, with the rules of each route. */}}
{{- define "gateway.envoy.routeConfig" -}}
name: ingress
{{- if include "gateway.routed" . }}
# shop.example:8443 is the host shop.example.
ignore_port_in_host_matching: true
{{- end }}
# Only the gateway uses these headers. After a retry, only the last attempt is known not to have
# started.
response_headers_to_remove: [endpoint-load-metrics, endpoint-load-metrics-bin, {{ .Values.upstream.retries.notStartedHeader }}]
{{- with include "gateway.marks" . | fromJson }}
request_headers_to_remove: {{ keys . | sortAlpha | toJson }}
{{- end }}
virtual_hosts:
{{- include "gateway.envoy.virtualHosts" . | trim | nindent 0 }}
{{- end -}}

{{- define "gateway.envoy.virtualHosts" -}}
{{- $routes := include "gateway.routes" . | fromJsonArray -}}
{{- $services := include "gateway.services" . | fromJson -}}
{{- $policies := dict -}}
{{- range include "gateway.hosts" . | fromJsonArray }}
- name: {{ ternary (first .domains) "server" (ne (include "gateway.routed" $) "") | replace "*" "every" }}
  domains: {{ toJson .domains }}
  routes:
  {{- include "gateway.envoy.severalHosts" $ | nindent 2 }}
  {{- if include "gateway.handshakes" $ }}
  {{- include "gateway.envoy.badHandshakes" $ | trim | nindent 2 }}
  {{- end }}
  # RFC 9110 section 9.3.8: a reply to TRACE would show a script headers that the browser hides from it.
  - name: trace
    match: {prefix: /, headers: [{name: ":method", string_match: {exact: TRACE}}]}
    direct_response: {status: 501}
  {{- with include "gateway.envoy.oidcPaths" $ }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- range .routes }}
  {{- $route := index $routes (int .) }}
  {{- range $route.rules }}
  {{- include "gateway.envoy.rule" (dict "root" $ "route" $route "rule" . "services" $services "policies" $policies) | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* One Envoy route. Takes the root context, all services, a route, one of its rules, and the retry policies that
are already rendered, because each policy is rendered only once. */}}
{{- define "gateway.envoy.rule" -}}
{{- $root := .root -}}
{{- $rule := .rule -}}
{{- $services := .services -}}
{{- $policies := .policies -}}
{{- with .route -}}
{{- $limited := and (int64 .milliseconds.timeout) (eq (get $services (first .services).cluster).protocol "grpc") -}}
- name: {{ .name | default (hasKey $rule "upgrade" | ternary "upgrade" (hasKey $rule "again" | ternary "idempotent" "once")) | quote }}
  {{- if .rateLimit }}
  metadata: {filter_metadata: {corelane: {route: {{ .name | quote }}}}}
  {{- end }}
  match:
    {{- include "gateway.envoy.path" .path | nindent 4 }}
    {{- if or $rule.methods $rule.upgrade .headers }}
    headers:
    {{- with $rule.upgrade }}
    - {name: upgrade, string_match: {safe_regex: {regex: {{ . | quote }}}}}
    {{- end }}
    {{- with $rule.methods }}
    - {name: ":method", string_match: {safe_regex: {regex: {{ join "|" . | quote }}}}}
    {{- end }}
    {{- range .headers }}
    - {{ include "gateway.envoy.header" . }}
    {{- end }}
    {{- end }}
  route:
    {{- include "gateway.envoy.target" . | nindent 4 }}
    {{- include "gateway.envoy.routeTimeouts" (list $root . $rule $services) | nindent 4 }}
    {{- with include "gateway.envoy.rewrite" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if $rule.upgrade }}
    upgrade_configs:
    {{- range .upgrade }}
    - {upgrade_type: {{ . }}}
    {{- end }}
    {{- end }}
    {{- with include "gateway.envoy.hashed" (list $root . $services) }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- $silence := ternary 0 .milliseconds.idleTimeout (hasKey $rule "upgrade") | int64 }}
    {{- $attempts := ternary .retries 0 (or (hasKey $rule "again") (hasKey $rule "once")) | int64 }}
    {{- $kind := hasKey $rule "again" | ternary "again" "once" }}
    {{- $policy := printf "%s_%d_%d" $kind $attempts $silence }}
    {{- if hasKey $policies $policy }}
    retry_policy: *retry_{{ $policy }}
    {{- else }}
    {{- $_ := set $policies $policy true }}
    retry_policy: &retry_{{ $policy }}
      {{- include "gateway.envoy.attempt" (list $root $kind $silence) | nindent 6 }}
      {{- include "gateway.envoy.retryPolicy" (list $root $attempts) | nindent 6 }}
    {{- end }}
  {{- if $rule.upgrade }}
  # HTTP/2 has no such field (RFC 8441 section 5.1), but replicas that use HTTP/1.1 require it.
  request_headers_to_add:
  - header: {key: sec-websocket-key, value: Y29yZWxhbmUtZ2F0ZXdheQ==}
    append_action: ADD_IF_ABSENT
  {{- else if $limited }}
  # The client's own deadline, which replaces the timeout that Envoy has set.
  request_headers_to_add:
  - header: {key: grpc-timeout, value: "%REQ(corelane-deadline)%"}
    append_action: OVERWRITE_IF_EXISTS
  {{- end }}
  {{- with $root.Values.authentication.basicAuth }}
  {{- if and .enabled (hasKey $.route "basicAuth" | ternary $.route.basicAuth .everywhere) }}
  # The service learns the user's name, but not the password.
  request_headers_to_remove: [authorization]
  {{- end }}
  {{- end }}
  {{- /* A body limit would count every byte that a client sends after an upgrade. */}}
  {{- with include "gateway.envoy.routeFilters" (list $root (ternary (set (deepCopy .) "bodyBytes" 0) . (hasKey $rule "upgrade"))) | trim }}
  typed_per_filter_config:
    {{- . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* A prefix ends at a path segment, so /orders does not match /orders2. */}}
{{- define "gateway.envoy.path" -}}
{{- $prefix := .prefix | default "" | trimSuffix "/" -}}
{{- if .exact -}}
path: {{ .exact | quote }}
{{- else if .regex -}}
safe_regex: {regex: {{ .regex | quote }}}
{{- else if $prefix -}}
path_separated_prefix: {{ $prefix | quote }}
{{- else -}}
prefix: /
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.header" -}}
{{- if hasKey . "exact" -}}
{name: {{ .name | quote }}, string_match: {exact: {{ .exact | quote }}}}
{{- else if .regex -}}
{name: {{ .name | quote }}, string_match: {safe_regex: {regex: {{ .regex | quote }}}}}
{{- else -}}
{name: {{ .name | quote }}, present_match: true}
{{- end -}}
{{- end -}}

{{/* The mirror sees the same host as the service. By default, Envoy would add a suffix to it. */}}
{{- define "gateway.envoy.target" -}}
{{- if eq (len .services) 1 -}}
cluster: {{ (first .services).cluster }}
{{- else -}}
weighted_clusters:
  clusters:
  {{- range .services }}
  - {name: {{ .cluster }}, weight: {{ int .weight }}}
  {{- end }}
{{- end -}}
{{- with .mirror }}
request_mirror_policies:
- cluster: {{ .cluster }}
  runtime_fraction: {default_value: {numerator: {{ mulf (hasKey . "percent" | ternary .percent 100) 10000 | int }}, denominator: MILLION}}
  disable_shadow_host_suffix_append: true
{{- end -}}
{{- end -}}

{{/* The new path replaces the prefix or the exact path. If it ends with a slash, that slash must not be followed by the
slash at the start of the rest. */}}
{{- define "gateway.envoy.rewrite" -}}
{{- with .rewrite -}}
{{- with .host }}
host_rewrite_literal: {{ . | quote }}
{{- end }}
{{- if .path }}
{{- $prefix := $.path.prefix | default "" | trimSuffix "/" }}
{{- if $.path.exact }}
prefix_rewrite: {{ .path | quote }}
{{- else if not $prefix }}
prefix_rewrite: {{ .path | trimSuffix "/" | printf "%s/" | quote }}
{{- else if hasSuffix "/" .path }}
regex_rewrite: {pattern: {regex: {{ $prefix | regexQuoteMeta | printf "^%s/*" | quote }}}, substitution: {{ .path | quote }}}
{{- else }}
prefix_rewrite: {{ .path | quote }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Takes the root context, a route and all services. */}}
{{- define "gateway.envoy.hashed" -}}
{{- $services := last . -}}
{{- $hashed := false -}}
{{- range (index . 1).services -}}
{{- $hashed = or $hashed (eq (get $services .cluster).balancing "ring-hash") -}}
{{- end -}}
{{- if $hashed -}}
{{- include "gateway.envoy.hashPolicy" (first .) -}}
{{- end -}}
{{- end -}}

{{/* Envoy joins two Host lines with a comma and would pass them on, but RFC 9112 section 3.2 requires 400. */}}
{{- define "gateway.envoy.severalHosts" -}}
- name: several-hosts
  match: {prefix: /, headers: [{name: ":authority", string_match: {contains: ","}}]}
  direct_response: {status: 400}
{{- if .Values.listener.http10 }}
{{ include "gateway.envoy.chunksOfHttp10" . }}
{{- end }}
{{- end -}}

{{/*
Matchers for invalid WebSocket handshakes over HTTP/1 (RFC 6455 section 4.2.1). A replica could not detect them: Envoy
does not pass on the version or the chunks. For HTTP/2 clients, it adds a key. A request body would be read as frames of
the new protocol.
*/}}
{{- define "gateway.badHandshakes" -}}
http-1-0: {name: corelane-version, string_match: {exact: HTTP/1.0}}
chunks: {name: corelane-coding, present_match: true}
length: {name: content-length, string_match: {safe_regex: {regex: ".*[1-9].*"}}}
no-key: {name: sec-websocket-key, present_match: true, invert_match: true}
{{- end -}}

{{/* A reply filter turns Envoy's status for these handshakes into 400 (gateway.envoy.localReplies). */}}
{{- define "gateway.envoy.badHandshakes" -}}
{{- range $name, $bad := include "gateway.badHandshakes" . | fromYaml }}
- name: handshake-{{ $name }}
  match:
    prefix: /
    headers:
    - {name: upgrade, present_match: true}
    - {name: corelane-version, string_match: {prefix: HTTP/1.}}
    - {{ toJson $bad }}
  direct_response: {status: 400}
{{- end }}
{{- end -}}

{{/* Redirects to the same URL with https. 308 keeps the method and the body (RFC 9110 section 15.4.9). */}}
{{- define "gateway.envoy.redirect" -}}
route_config:
  name: redirect
  virtual_hosts:
  - name: redirect
    domains: ["*"]
    routes:
    {{- include "gateway.envoy.severalHosts" . | nindent 4 }}
    - name: redirect
      match: {prefix: /}
      redirect: {https_redirect: true, port_redirect: {{ int .Values.service.httpsPort }}, response_code: PERMANENT_REDIRECT}
{{- end -}}

{{/* Which failures before the reply begins are retried, and how. Takes the root context, `again` or `once`, and the
timeout in milliseconds. */}}
{{- define "gateway.envoy.attempt" -}}
{{- $again := eq (index . 1) "again" -}}
{{- if $again -}}
# These methods can safely run twice, so retry after any failure before the reply begins.
retry_on: connect-failure,refused-stream,reset,retriable-headers
{{- else -}}
# Other methods must run at most once, so retry only if no handler was started.
retry_on: connect-failure,refused-stream,reset-before-request,retriable-headers
{{- end }}
{{- if and $again (first .).Values.upstream.retries.perTryTimeout }}
per_try_timeout: {{ include "gateway.duration" (list (first .) "upstream.retries.perTryTimeout") }}
{{- else if last . }}
per_try_timeout: {{ include "gateway.seconds" (last .) }}
{{- end }}
{{- end -}}

{{/* Takes the root context and the number of retries. */}}
{{- define "gateway.envoy.retryPolicy" -}}
{{- $root := first . -}}
{{- $attempts := last . -}}
{{- with $root.Values.upstream.retries -}}
retriable_headers: [{name: {{ .notStartedHeader | quote }}, present_match: true}]
num_retries: {{ int $attempts }}
retry_back_off:
  base_interval: {{ include "gateway.duration" (list $root "upstream.retries.backOff.base") }}
  max_interval: {{ include "gateway.duration" (list $root "upstream.retries.backOff.max") }}
# Prefer a replica that has not been tried. After this many draws, use any replica.
retry_host_predicate:
- name: envoy.retry_host_predicates.previous_hosts
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate
host_selection_retry_max_attempts: 5
{{- end -}}
{{- end -}}
