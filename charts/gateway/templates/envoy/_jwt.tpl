{{/*
JSON Web Tokens for writes, and the claims of a verified token, which reach the service.
*/}}
{{- define "gateway.envoy.filter.jwt" -}}
{{- with .Values.authentication.jwt -}}
{{- if .enabled -}}
- name: envoy.filters.http.jwt_authn
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
    providers:
      issuer:
        {{- $url := .url | default "http://jwks/" }}
        {{- $cache := ternary (include "gateway.duration" (list $ "authentication.jwt.refresh")) "10s" (not (not .url)) }}
        {{- dict "root" $ "issuer" .issuer "audiences" .audiences "url" $url "cluster" "jwks" "cache" $cache | include "gateway.envoy.jwtProvider" | nindent 8 }}
        from_headers: [{name: authorization, value_prefix: "Bearer "}]
    rules:
    {{- if include "gateway.handshakes" $ }}
    # An upgrade begins as a GET, but the client may then write data.
    - match: {prefix: {{ .prefix | quote }}, headers: [{name: upgrade, present_match: true}]}
      requires: {provider_name: issuer}
    {{- end }}
    # Every method that is not known to be safe requires a token.
    - match:
        prefix: {{ .prefix | quote }}
        headers: [{name: ":method", string_match: {safe_regex: {regex: GET|HEAD|OPTIONS}}, invert_match: true}]
      requires: {provider_name: issuer}
    {{- if or (include "gateway.routes.with" (list $ "jwt")) (include "gateway.dynamic" $) }}
    requirement_map:
      token: {provider_name: issuer}
    {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How a token is verified. Takes the root context, issuer, audiences, and the URL, cluster and lifetime of the keys. */}}
{{- define "gateway.envoy.jwtProvider" -}}
issuer: {{ .issuer | quote }}
audiences: {{ .audiences | toJson }}
# Otherwise a token without an expiry would be valid forever.
require_expiration: true
clock_skew_seconds: {{ div (include "common.milliseconds" (list .root "authentication.jwt.leeway") | int64) 1000 }}
# Envoy reads local_jwks only at start, but fetches these keys again without a restart.
remote_jwks:
  http_uri: {uri: {{ .url | quote }}, cluster: {{ .cluster }}, timeout: 5s}
  cache_duration: {{ .cache }}
  # Envoy serves the Secret's keys to itself, but only after its listeners are ready.
  async_fetch: {fast_listener: {{ hasPrefix "http:" .url }}}
# Distinguishes missing keys from invalid tokens (gateway.envoy.localReplies).
failed_status_in_metadata: failed
{{- with .root.Values.authentication.jwt.claimsHeader }}
forward_payload_header: {{ . }}
{{- end }}
{{- if or (include "gateway.envoy.filter.claims" .root) (include "gateway.rateLimit.claims" .root) }}
payload_in_metadata: claims
{{- end }}
{{- end -}}

{{/* Rejects tokens without the required claims. A request without verified claims needs no token, or the filter before
would have rejected it. */}}
{{- define "gateway.envoy.filter.claims" -}}
{{- with .Values.authentication.jwt -}}
{{- if and (or .enabled $.Values.authentication.oidc.enabled) (or .requireClaims (include "gateway.routes.with" (list $ "requireClaims")) (include "gateway.dynamic" $)) -}}
- name: corelane.claims
  {{- if not .requireClaims }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
    {{- with .requireClaims }}
    {{- $claims := printf "{and_ids: {ids: [%s]}}" (include "gateway.envoy.claims" . | fromYamlArray | toJson | trimPrefix "[" | trimSuffix "]") }}
    rules:
      policies:
        claims:
          permissions: [{any: true}]
          principals:
          - not_id: {sourced_metadata: {metadata_matcher: {filter: envoy.filters.http.jwt_authn, path: [{key: claims}, {key: iss}], value: {present_match: true}}}}
          - {{ $claims }}
    {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A route's own claims, which replace the claims for all routes. Each request to the route has a token. */}}
{{- define "gateway.envoy.routeClaims" -}}
corelane.claims:
  "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute
  rbac:
    rules:
      policies:
        claims:
          permissions: [{any: true}]
          principals:
          - and_ids:
              ids:
              {{- include "gateway.envoy.claims" . | nindent 14 }}
{{- end -}}

{{/* One matcher for each claim, which must have one of the values, alone or in a list. Scopes are a list in one string
(RFC 8693, section 4.2). */}}
{{- define "gateway.envoy.claims" -}}
{{- range . }}
{{- $path := list (dict "key" "claims") }}
{{- range kindIs "string" .claim | ternary (list .claim) .claim }}
{{- $path = append $path (dict "key" .) }}
{{- end }}
{{- $scopes := has .claim (list "scope" "scp") }}
{{- $matchers := list }}
{{- range .values }}
{{- $one := dict "double_match" (dict "exact" .) }}
{{- if kindIs "bool" . }}
{{- $one = dict "bool_match" . }}
{{- else if kindIs "string" . }}
{{- $one = dict "string_match" (ternary (dict "safe_regex" (dict "regex" (printf "(.* )?%s( .*)?" (regexQuoteMeta .)))) (dict "exact" .) $scopes) }}
{{- end }}
{{- $matchers = append (append $matchers $one) (dict "list_match" (dict "one_of" $one)) }}
{{- end }}
{{- $value := ternary (dict "or_match" (dict "value_matchers" $matchers)) (dict "present_match" true) (gt (len $matchers) 0) }}
- sourced_metadata: {metadata_matcher: {{ dict "filter" "envoy.filters.http.jwt_authn" "path" $path "value" $value | toJson }}}
{{- end }}
{{- end -}}

{{/* The cluster from which Envoy fetches the issuer's keys: the issuer, or the listener below. */}}
{{- define "gateway.envoy.jwks" -}}
{{- with .Values.authentication.jwt -}}
{{- if .url }}
{{- include "gateway.envoy.issuer" (list "jwks" .url .ca) }}
{{- else -}}
- name: jwks
  connect_timeout: 2s
  load_assignment:
    cluster_name: jwks
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {pipe: {path: {{ include "gateway.jwt.pipe" $ }}}}
{{- end }}
{{- end -}}
{{- end -}}

{{/* A cluster of the host of an https URL. Takes its name, the URL, and the file of the certificate authorities. */}}
{{- define "gateway.envoy.issuer" -}}
{{- $host := dict "url" (index . 1) | include "gateway.jwt.host" | fromJson -}}
- name: {{ first . }}
  connect_timeout: 2s
  cluster_type:
    name: envoy.clusters.dns
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster
      dns_lookup_family: V4_PREFERRED
  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
      sni: {{ $host.name }}
      common_tls_context:
        validation_context:
          trusted_ca: {filename: {{ last . | quote }}}
          match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: {{ $host.name }}}}]
  load_assignment:
    cluster_name: {{ first . }}
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {socket_address: {address: {{ $host.name }}, port_value: {{ $host.port }}}}
{{- end -}}

{{/* Serves the Secret's keys to Envoy itself, because Envoy rereads the file for a response, but not for
local_jwks. */}}
{{- define "gateway.envoy.jwksListener" -}}
{{- $file := (include "gateway.jwt.paths" . | fromYaml).jwks -}}
- name: jwks
  stat_prefix: jwks
  address: {pipe: {path: {{ include "gateway.jwt.pipe" . }}}}
  ignore_global_conn_limit: true
  bypass_overload_manager: true
  per_connection_buffer_limit_bytes: 32768
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: jwks
        route_config:
          name: jwks
          max_direct_response_body_size_bytes: 1048576
          virtual_hosts:
          - name: jwks
            domains: ["*"]
            routes:
            - match: {prefix: /}
              direct_response: {status: 200, body: {filename: {{ $file | quote }}, watched_directory: {path: {{ dir $file | quote }}}}}
        http_filters:
        {{- include "gateway.envoy.filter.router" . | nindent 8 }}
{{- end -}}

{{/* An abstract socket, which needs no writable folder. Other gateways on this host have other ports. */}}
{{- define "gateway.jwt.pipe" -}}
"@corelane-jwks-{{ .Values.admin.port }}"
{{- end -}}

{{- define "gateway.jwt.host" -}}
{{- $authority := (urlParse .url).host -}}
{{- $port := regexFind ":[0-9]+$" $authority -}}
{{- dict "name" (trimSuffix $port $authority) "port" (trimPrefix ":" $port | default 443 | int) | toJson -}}
{{- end -}}

{{/* The gateway replaces what a client was checked by with its own token, so replicas need neither issuer nor keys. */}}
{{- define "gateway.envoy.filter.credential" -}}
{{- if or .Values.authentication.jwt.enabled .Values.authentication.oidc.enabled -}}
- name: envoy.filters.http.credential_injector
  {{- if not (include "gateway.authenticated" (list . dict)) }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector
    overwrite: true
    credential:
      name: envoy.http.injected_credentials.generic
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.generic.v3.Generic
        header_value_prefix: "Bearer "
        credential:
          name: replicas
          sds_config:
            resource_api_version: V3
            path_config_source: {path: {{ (include "gateway.jwt.paths" . | fromYaml).sds | quote }}}
{{- end -}}
{{- end -}}

{{/* Not empty if a route checks tokens or logins. Takes the root context and the route, or what all routes have. */}}
{{- define "gateway.authenticated" -}}
{{- $route := last . -}}
{{- with (first .).Values.authentication -}}
{{- if or (and .jwt.enabled (hasKey $route "jwt" | ternary $route.jwt true)) (and .oidc.enabled (hasKey $route "oidc" | ternary $route.oidc .oidc.everywhere)) }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* The location of the files: mounted in the pod, or as set in the values of a local process. */}}
{{- define "gateway.jwt.paths" -}}
{{- with .Values.authentication -}}
{{- if not .jwt.enabled -}}
{{- $login := include "gateway.oidc.paths" $ | fromJson -}}
{token: {{ $login.folder }}/token, sds: {{ $login.sds }}/credential.yaml}
{{- else if .jwt.secret -}}
{jwks: /etc/envoy-jwt/jwks.json, token: /etc/envoy-jwt/token, sds: /etc/envoy/credential.yaml}
{{- else -}}
{{- .jwt.files | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The file from which Envoy learns the location of the gateway's token (secret discovery service). */}}
{{- define "gateway.envoy.credential" -}}
{{- include "gateway.envoy.genericSecret" (list "replicas" (include "gateway.jwt.paths" . | fromYaml).token) -}}
{{- end -}}

{{/* Takes the name of the secret and its file. */}}
{{- define "gateway.envoy.genericSecret" -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: {{ first . }}
  generic_secret:
    secret: {filename: {{ last . | quote }}, watched_directory: {path: {{ last . | dir | quote }}}}
{{- end -}}
