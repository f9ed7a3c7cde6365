{{/*
The fixed order of the filters: a request passes them from first to last, and its response from last to first. Each name
has a template gateway.envoy.filter.NAME, which takes the root context and is empty if the filter is off.

CORS comes first, because a preflight request has no credentials. The gateway's own rate limit precedes the checks that
cost CPU time. The rate limits of keys and routes follow these checks, so that a client without credentials cannot
exhaust them. The gateway's credential for replicas replaces the client's after the last filter that checks the client.
Takes the root context and the listener.
*/}}
{{- define "gateway.envoy.filters" -}}
{{- $root := .root -}}
{{- if and $root.Values.http3.enabled (eq .listener "tls") }}
{{- include "gateway.envoy.altSvc" $root }}
{{- end }}
{{- range list "cors" "clientCertificate" "rateLimit" "oidc" "idToken" "jwt" "claims" "apiKeys" "basicAuth" "externalAuthorization" "keyRateLimits" "routeRateLimits" "credential" "compression" "bodyLimit" "routeBodyLimits" "grpcWeb" "router" }}
{{- with include (printf "gateway.envoy.filter.%s" .) $root | trim }}
{{- . | nindent 0 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Not empty if a route has this key. Takes the root context and the key. */}}
{{- define "gateway.routes.with" -}}
{{- $key := last . -}}
{{- range (first .).Values.routes -}}
{{- if get . $key }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* A route's changes to the filters. Takes the root context and a route. */}}
{{- define "gateway.envoy.routeFilters" -}}
{{- $root := first . -}}
{{- $off := "{\"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}" -}}
{{- $on := "{\"@type\": type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}" -}}
{{- $usual := $root.Values.listener.bodyBytes | int64 -}}
{{- with last . -}}
{{- if and (hasKey . "jwt") $root.Values.authentication.jwt.enabled }}
envoy.filters.http.jwt_authn:
  "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig
  {{ ternary "requirement_name: token" "disabled: true" .jwt }}
{{- end }}
{{- $authenticated := include "gateway.authenticated" (list $root .) }}
{{- if ne $authenticated (include "gateway.authenticated" (list $root dict)) }}
# The service gets the client's own header, because the gateway's token must not vouch for a request
# that was not checked.
envoy.filters.http.credential_injector: {{ ternary $on $off (ne $authenticated "") }}
{{- end }}
{{- with include "gateway.envoy.corsPolicy" (hasKey . "cors" | ternary .cors $root.Values.cors) }}
envoy.filters.http.cors:
  {{- . | nindent 2 }}
{{- end }}
{{- with .requireClaims }}
{{ include "gateway.envoy.routeClaims" . }}
{{- end }}
{{- include "gateway.envoy.routeAccess" (list $root .) }}
{{- if and (hasKey . "bodyBytes") (ne (int64 .bodyBytes) $usual) }}
{{- if $usual }}
envoy.filters.http.body_size_limit: {{ $off }}
{{- end }}
{{- if .bodyBytes }}
# The body limit filter has no per-route setting, but a filter chain does.
envoy.filters.http.filter_chain:
  "@type": type.googleapis.com/envoy.extensions.filters.http.filter_chain.v3.FilterChainConfigPerRoute
  filter_chain:
    filters:
    {{- include "gateway.envoy.bodyLimit" .bodyBytes | nindent 4 }}
{{- end }}
{{- end }}
{{- if .rateLimit }}
corelane.route_rate_limits: {{ $on }}
{{- end }}
{{- if eq (.protocol | default $root.Values.upstream.protocol) "grpc" }}
envoy.filters.http.grpc_web: {{ $on }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Answers preflight requests, and adds CORS headers to responses. Routes with a policy enable it. */}}
{{- define "gateway.envoy.filter.cors" -}}
{{- if or .Values.cors.origins (include "gateway.routes.with" (list . "cors")) (include "gateway.dynamic" .) }}
- name: envoy.filters.http.cors
  disabled: true
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors
{{- end }}
{{- end -}}

{{/* A wildcard matches any number of labels but not a port. For `*`, Envoy echoes the requested method and
headers. */}}
{{- define "gateway.envoy.corsPolicy" -}}
{{- if .origins -}}
"@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
allow_origin_string_match:
{{- range .origins }}
{{- if or (eq . "*") (not (contains "*" .)) }}
- exact: {{ . | quote }}
{{- else }}
- safe_regex: {regex: {{ regexQuoteMeta . | replace "\\*" "[^/:]+" | quote }}}
{{- end }}
{{- end }}
# The service does not receive preflight requests from other origins either.
forward_not_matching_preflights: false
allow_methods: {{ .methods | default (list "GET" "HEAD" "POST") | join "," | quote }}
{{- with .headers }}
allow_headers: {{ join "," . | quote }}
{{- end }}
{{- with .exposeHeaders }}
expose_headers: {{ join "," . | quote }}
{{- end }}
{{- if .credentials }}
allow_credentials: true
{{- end }}
max_age: {{ div (include "common.duration" (list (.maxAge | default "10m") "cors.maxAge") | int64) 1000 | quote }}
{{- end -}}
{{- end -}}

{{- define "gateway.envoy.filter.bodyLimit" -}}
{{- with .Values.listener.bodyBytes -}}
{{- include "gateway.envoy.bodyLimit" . -}}
{{- end -}}
{{- end -}}

{{/* Only some routes enable this filter. */}}
{{- define "gateway.envoy.filter.routeBodyLimits" -}}
{{- if or (include "gateway.routes.with" (list . "bodyBytes")) (include "gateway.dynamic" .) }}
- name: envoy.filters.http.filter_chain
  disabled: true
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.filter_chain.v3.FilterChainConfig
{{- end }}
{{- end -}}

{{/* Only some routes enable this filter. */}}
{{- define "gateway.envoy.filter.grpcWeb" -}}
{{- if include "gateway.grpc" . }}
# gRPC-Web calls from browsers, which cannot read gRPC trailers.
- name: envoy.filters.http.grpc_web
  disabled: true
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.grpc_web.v3.GrpcWeb
{{- end }}
{{- end -}}

{{/*
Replies that Envoy itself creates, in the same form as the server's errors (RFC 9457). The type and title depend on the
status. The reason for a rejection is in the access log and not in the reply. These replies have no corelane-replica
header, which distinguishes them from a replica's reply.
*/}}
{{- define "gateway.envoy.localReplies" -}}
{{- $phrases := list
  (list 400 "Bad Request")
  (list 401 "Unauthorized")
  (list 403 "Forbidden")
  (list 404 "Not Found")
  (list 405 "Method Not Allowed")
  (list 408 "Request Timeout")
  (list 413 "Payload Too Large")
  (list 426 "Upgrade Required")
  (list 429 "Too Many Requests")
  (list 431 "Request Header Fields Too Large")
  (list 500 "Internal Server Error")
  (list 501 "Not Implemented")
  (list 502 "Bad Gateway")
  (list 503 "Service Unavailable")
  (list 504 "Gateway Timeout")
-}}
local_reply_config: &local_replies
  mappers:
  {{- if include "gateway.grpc" . }}
  {{- include "gateway.envoy.grpcReplies" . | nindent 2 }}
  {{- end }}
  {{- if or .Values.authentication.jwt.enabled .Values.authentication.oidc.enabled }}
  # Without the issuer's keys, no token can be verified. The client should neither discard its token
  # nor request another.
  - filter:
      metadata_filter:
        matcher: {filter: envoy.filters.http.jwt_authn, path: [{key: failed}, {key: message}], value: {string_match: {exact: Jwks remote fetch is failed}}}
        match_if_key_not_found: false
    status_code: 503
    body_format_override:
      content_type: application/problem+json
      json_format: {type: "urn:corelane:problem:service-unavailable", title: Service Unavailable, status: 503}
  {{- end }}
  {{- if include "gateway.envoy.filter.claims" . }}
  # RFC 6750, section 3.1. Other filters reject such a token, too: this one alone by roles.
  - filter:
      and_filter:
        filters:
        - metadata_filter:
            matcher: {filter: envoy.filters.http.jwt_authn, path: [{key: claims}, {key: iss}], value: {present_match: true}}
            match_if_key_not_found: false
        - extension_filter:
            name: envoy.access_loggers.extension_filters.cel
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter
              expression: response.code_details.startsWith("rbac_access_denied")
    headers_to_add: [{header: {key: www-authenticate, value: 'Bearer error="insufficient_scope"'}}]
    body_format_override:
      content_type: application/problem+json
      json_format: {type: "urn:corelane:problem:forbidden", title: Forbidden, status: 403}
  {{- end }}
  {{- if .Values.authentication.oidc.enabled }}
  # The provider is down or rejects the gateway. For a code that it rejects (400), 401 is right.
  - filter:
      extension_filter:
        name: envoy.access_loggers.extension_filters.cel
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter
          expression: response.code_details.matches("^Failed.to.get.access.token") && !response.code_details.matches("response.code:.400")
    status_code: 503
    body_format_override:
      content_type: application/problem+json
      json_format: {type: "urn:corelane:problem:service-unavailable", title: Service Unavailable, status: 503}
  {{- end }}
  # This request is about the gateway and not about a resource (RFC 9110 section 9.3.7), so Envoy
  # finds no route for it.
  - filter:
      and_filter:
        filters:
        - header_filter: {header: {name: ":method", string_match: {exact: OPTIONS}}}
        - header_filter: {header: {name: ":path", string_match: {exact: "*"}}}
    status_code: 204
    body: {inline_string: ""}
    body_format_override: {text_format_source: {inline_string: "%LOCAL_REPLY_BODY%"}}
  {{- if include "gateway.handshakes" . }}
  # If a route has no replica, Envoy rejects an upgrade with 403, whatever the route specifies.
  - filter:
      and_filter:
        filters:
        - status_code_filter: {comparison: {op: EQ, value: {default_value: 403, runtime_key: unset}}}
        - header_filter: {header: {name: upgrade, present_match: true}}
        - header_filter: {header: {name: corelane-version, string_match: {prefix: HTTP/1.}}}
        - or_filter:
            filters:
            {{- range include "gateway.badHandshakes" . | fromYaml }}
            - header_filter: {header: {{ toJson . }}}
            {{- end }}
    status_code: 400
    body_format_override:
      content_type: application/problem+json
      json_format: {type: "urn:corelane:problem:bad-request", title: Bad Request, status: 400}
  {{- end }}
  # The filter's schema requires a runtime key, which nothing sets.
  {{- range $phrases }}
  {{- $status := index . 0 }}
  {{- $phrase := index . 1 }}
  - filter: {status_code_filter: {comparison: {op: EQ, value: {default_value: {{ $status }}, runtime_key: unset}}}}
    body_format_override:
      content_type: application/problem+json
      json_format:
        type: urn:corelane:problem:{{ $phrase | lower | replace " " "-" }}
        title: {{ $phrase }}
        status: {{ $status }}
  {{- end }}
  body_format:
    content_type: application/problem+json
    json_format: {type: "about:blank", title: Error, status: "%RESPONSE_CODE%"}
{{- end -}}
