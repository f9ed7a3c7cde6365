{{/*
Filters that authenticate or authorize clients by other means than tokens. Each filter template takes the root context.
*/}}

{{/* Only some routes enable this filter. The connection manager sets the header for a verified certificate and removes
the header that a client sends. */}}
{{- define "gateway.envoy.filter.clientCertificate" -}}
{{- if include "gateway.routes.with" (list . "clientCertificate") -}}
- name: corelane.client_certificate
  disabled: true
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
    rules:
      action: ALLOW
      policies:
        certificate:
          permissions: [{any: true}]
          principals: [{header: {name: x-forwarded-client-cert, present_match: true}}]
{{- end -}}
{{- end -}}

{{/* API keys: the agent writes the filter, because Envoy reads keys only from its configuration. */}}
{{- define "gateway.envoy.filter.apiKeys" -}}
{{- include "gateway.envoy.credentials" (list . "apiKeys" "corelane.api_keys" "api_key_auth.v3.ApiKeyAuth") -}}
{{- end -}}

{{- define "gateway.envoy.filter.basicAuth" -}}
{{- include "gateway.envoy.credentials" (list . "basicAuth" "corelane.basic_auth" "basic_auth.v3.BasicAuth") -}}
{{- end -}}

{{/* Takes the root context, the key of its values, its name and its type. */}}
{{- define "gateway.envoy.credentials" -}}
{{- with get (first .).Values.authentication (index . 1) -}}
{{- if .enabled -}}
- name: {{ index $ 2 }}
  {{- if not .everywhere }}
  disabled: true
  {{- end }}
  config_discovery:
    config_source: {{ include "gateway.envoy.file" (index $ 2) }}
    type_urls: [type.googleapis.com/envoy.extensions.filters.http.{{ last $ }}]
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A service that decides about each request. If it does not answer, the request fails. */}}
{{- define "gateway.envoy.filter.externalAuthorization" -}}
{{- with .Values.externalAuthorization -}}
{{- if .enabled -}}
{{- $timeout := include "gateway.duration" (list $ "externalAuthorization.timeout") -}}
- name: corelane.external_authorization
  {{- if not .everywhere }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
    {{- if eq .protocol "grpc" }}
    transport_api_version: V3
    grpc_service: {envoy_grpc: {cluster_name: authorization}, timeout: {{ $timeout }}}
    {{- else }}
    http_service:
      server_uri: {uri: {{ printf "http://%s:%d" .host (int .port) | quote }}, cluster: authorization, timeout: {{ $timeout }}}
      path_prefix: {{ .path | quote }}
      {{- with .responseHeaders }}
      authorization_response:
        allowed_upstream_headers: {{ include "gateway.exactly" . }}
      {{- end }}
    {{- end }}
    allowed_headers: {{ include "gateway.exactly" .requestHeaders }}
    validate_mutations: true
    # This is not 403, which would mean that the client lacks permission.
    status_on_error: {code: ServiceUnavailable}
    {{- if .bodyBytes }}
    with_request_body: {max_request_bytes: {{ int .bodyBytes }}}
    {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A matcher for a list of names. */}}
{{- define "gateway.exactly" -}}
{{- $patterns := list -}}
{{- range . }}{{ $patterns = append $patterns (dict "exact" (lower .)) }}{{ end -}}
{{- dict "patterns" $patterns | toJson -}}
{{- end -}}

{{- define "gateway.envoy.authorization" -}}
{{- with .Values.externalAuthorization -}}
- name: authorization
  connect_timeout: 1s
  cluster_type:
    name: envoy.clusters.dns
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
      dns_lookup_family: V4_PREFERRED
  {{- if eq .protocol "grpc" }}
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  {{- end }}
  load_assignment:
    cluster_name: authorization
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {socket_address: {address: {{ .host | quote }}, port_value: {{ .port }}}}
{{- end -}}
{{- end -}}

{{/* Compresses replies that the service has not compressed. Envoy does not change a reply that has a
content-encoding. */}}
{{- define "gateway.envoy.filter.compression" -}}
{{- with .Values.compression -}}
{{- if .enabled -}}
{{- range $name, $type := dict "gzip" "gzip.compressor.v3.Gzip" "brotli" "brotli.compressor.v3.Brotli" }}
- name: corelane.{{ $name }}
  {{- if not $.Values.compression.everywhere }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor
    response_direction_config:
      common_config: {min_content_length: {{ int $.Values.compression.minBytes }}, content_type_matcher: {{ (include "gateway.exactly" $.Values.compression.types | fromJson).patterns | toJson }}}
      weaken_etag_on_compress: true
      # A partial response contains bytes of the uncompressed content.
      uncompressible_response_codes: [206]
    # The gateway uses brotli if the client accepts both.
    choose_first: {{ eq $name "brotli" }}
    compressor_library:
      name: corelane
      typed_config: {"@type": type.googleapis.com/envoy.extensions.compression.{{ $type }}}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The data from which the agent writes these filters, as JSON. */}}
{{- define "gateway.credentials" -}}
{{- $found := dict -}}
{{- $kind := "type.googleapis.com/envoy.extensions.filters.http." -}}
{{- with .Values.authentication.apiKeys -}}
{{- if .enabled -}}
{{- $forwarding := dict "hide_credentials" true "header" .clientHeader -}}
{{- $config := dict "@type" (print $kind "api_key_auth.v3.ApiKeyAuth") "key_sources" (list (dict "header" .header)) "forwarding" $forwarding -}}
{{- $_ := set $found "corelane.api_keys" (dict "folder" "/etc/envoy-api-keys" "config" $config) -}}
{{- end -}}
{{- end -}}
{{- with .Values.authentication.basicAuth -}}
{{- if .enabled -}}
{{- $config := dict "@type" (print $kind "basic_auth.v3.BasicAuth") "forward_username_header" .userHeader -}}
{{- $_ := set $found "corelane.basic_auth" (dict "folder" "/etc/envoy-basic-auth" "config" $config) -}}
{{- end -}}
{{- end -}}
{{- if $found }}{{ toJson $found }}{{ end -}}
{{- end -}}

{{/* Volumes for these Secrets, as JSON. They are whole folders, because a mounted file would not follow its
Secret. */}}
{{- define "gateway.credentials.secrets" -}}
{{- $found := dict -}}
{{- range $name, $key := dict "api-keys" "apiKeys" "basic-auth" "basicAuth" -}}
{{- with get $.Values.authentication $key -}}
{{- if .enabled }}{{ $_ := set $found $name .secret }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* A route's changes to these filters. Takes the root context and the route. */}}
{{- define "gateway.envoy.routeAccess" -}}
{{- $root := first . -}}
{{- $route := last . -}}
{{- if $route.clientCertificate }}
corelane.client_certificate: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}
{{- end -}}
{{- range $key, $check := include "gateway.access" $root | fromJson -}}
{{- if and $check.enabled (hasKey $route $key) (ne (get $route $key) $check.everywhere) }}
{{- range $check.filters }}
{{ . }}: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, {{ ternary "config: {}" "disabled: true" (get $route $key) }}}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The checks that a route can enable or disable, by the route's key, as JSON, with their values and filters. */}}
{{- define "gateway.access" -}}
{{- $checks := dict
  "oidc" (dict "values" "authentication.oidc" "filters" (list "corelane.oidc" "corelane.id_token"))
  "apiKey" (dict "values" "authentication.apiKeys" "filters" (list "corelane.api_keys"))
  "basicAuth" (dict "values" "authentication.basicAuth" "filters" (list "corelane.basic_auth"))
  "externalAuthorization" (dict "values" "externalAuthorization" "filters" (list "corelane.external_authorization"))
  "compression" (dict "values" "compression" "filters" (list "corelane.gzip" "corelane.brotli")) -}}
{{- range $checks -}}
{{- $values := $.Values -}}
{{- range splitList "." .values }}{{ $values = get $values . }}{{ end -}}
{{- $_ := merge . (pick $values "enabled" "everywhere") -}}
{{- end -}}
{{- toJson $checks -}}
{{- end -}}

{{- define "gateway.guards.clients" -}}
{{- with .Values.tls.clients -}}
{{- $files := list .files.ca .files.sds | compact -}}
{{- if ne .mode "none" -}}
{{- if not $.Values.tls.enabled -}}
{{- fail (printf "tls.clients.mode is %s but tls.enabled is not true: clients show certificates only over TLS. Enable it, or set tls.clients.mode to none" .mode) -}}
{{- end -}}
{{- if eq (ternary 1 0 (ne .secret "")) (ternary 1 0 (eq (len $files) 2)) -}}
{{- fail (printf "tls.clients.mode is %s, which needs the CA of the clients: set tls.clients.secret, or for a local process ca and sds of tls.clients.files" .mode) -}}
{{- end -}}
{{- if $.Values.http3.enabled -}}
{{- fail "tls.clients.mode and http3.enabled are both set, but Envoy requests no client certificate over HTTP/3: set http3.enabled to false" -}}
{{- end -}}
{{- if and (eq .mode "required") (eq $.Values.tls.plain "serve") -}}
{{- fail "tls.clients.mode is required but tls.plain is serve, so clients would need no certificate on listener.port: set tls.plain to redirect" -}}
{{- end -}}
{{- end -}}
{{- range $.Values.routes -}}
{{- if and .clientCertificate (eq $.Values.tls.clients.mode "none") -}}
{{- fail (printf "clientCertificate of the route %s is true but tls.clients.mode is none: set it to optional, or remove clientCertificate" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.access" -}}
{{- include "gateway.guards.clients" . -}}
{{- include "gateway.guards.oidc" . -}}
{{- $jwt := .Values.authentication.jwt.enabled -}}
{{- range $key, $name := dict "apiKey" "apiKeys" "basicAuth" "basicAuth" -}}
{{- $values := get $.Values.authentication $name -}}
{{- if and $values.enabled (not $values.secret) -}}
{{- fail (printf "authentication.%s.enabled is true but authentication.%s.secret is empty: set it to the name of the Secret" $name $name) -}}
{{- end -}}
{{- if and $values.enabled (ne (include "gateway.discovery" $) "eds") (not (has $.Values.listener.address (list "127.0.0.1" "::1"))) -}}
{{- fail (printf "authentication.%s.enabled is true but replicas are found by %s: the agent that reads the Secret needs upstream.discovery eds" $name (include "gateway.discovery" $)) -}}
{{- end -}}
{{- range $.Values.routes -}}
{{- if and (eq $key "basicAuth") $jwt (or .basicAuth (and $values.everywhere $values.enabled (not (hasKey . $key)))) (ne .jwt false) -}}
{{- fail (printf "the route %s needs a password and, for writes, a token, but a request has only one Authorization header: set its basicAuth or its jwt to false" .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key, $check := include "gateway.access" . | fromJson -}}
{{- range $.Values.routes -}}
{{- if and (get . $key) (not $check.enabled) -}}
{{- fail (printf "%s of the route %s is true but %s.enabled is not: enable it, or remove %s" $key .name $check.values $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.externalAuthorization.enabled (not .Values.externalAuthorization.host) -}}
{{- fail "externalAuthorization.enabled is true but externalAuthorization.host is empty: set it to the name or address of the service that decides" -}}
{{- end -}}
{{- if and $jwt .Values.authentication.basicAuth.enabled .Values.authentication.basicAuth.everywhere (not .Values.routes) -}}
{{- fail "authentication.jwt and authentication.basicAuth are both enabled, but a request has only one Authorization header: disable one of them, or use routes" -}}
{{- end -}}
{{- end -}}
