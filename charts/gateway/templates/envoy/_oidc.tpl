{{/*
Login at an OpenID Connect provider. The session is in cookies, which every gateway pod with the same Secret can read.
*/}}
{{- define "gateway.envoy.filter.oidc" -}}
{{- with .Values.authentication.oidc -}}
{{- if .enabled -}}
- name: corelane.oidc
  {{- if not .everywhere }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.oauth2.v3.OAuth2
    config:
      authorization_endpoint: {{ .authorizationEndpoint | quote }}
      token_endpoint: {uri: {{ .tokenEndpoint | quote }}, cluster: oidc, timeout: {{ include "gateway.duration" (list $ "authentication.oidc.timeout") }}}
      {{- with .endSessionEndpoint }}
      end_session_endpoint: {{ . | quote }}
      {{- end }}
      auth_scopes: {{ .scopes | toJson }}
      auth_type: {{ ternary "BASIC_AUTH" "URL_ENCODED_BODY" (eq .clientAuthentication "basic") }}
      credentials:
        client_id: {{ .clientId | quote }}
        {{- $folder := (include "gateway.oidc.paths" $ | fromJson).sds }}
        token_secret: {name: oidc-client, sds_config: {resource_api_version: V3, path_config_source: {path: {{ $folder }}/oidc-client.yaml}}}
        hmac_secret: {name: oidc-hmac, sds_config: {resource_api_version: V3, path_config_source: {path: {{ $folder }}/oidc-hmac.yaml}}}
      redirect_uri: {{ printf "%%REQ(x-forwarded-proto)%%://%%REQ(:authority)%%%s" .callbackPath | quote }}
      redirect_path_matcher: {path: {exact: {{ .callbackPath | quote }}}}
      signout_path: {path: {exact: {{ .logoutPath | quote }}}}
      # Only the navigation of a browser can continue at the provider, and it continues here as a GET.
      deny_redirect_matcher:
      - {name: ":method", string_match: {exact: GET}, invert_match: true}
      - {name: accept, string_match: {contains: text/html}, invert_match: true, treat_missing_header_as_empty: true}
      - {name: sec-fetch-mode, string_match: {exact: navigate}, invert_match: true}
      # Nobody here needs the access token.
      disable_access_token_set_cookie: true
      # Otherwise another site could send requests in the user's name.
      cookie_configs:
        {{- range list "oauth_hmac" "oauth_expires" "id_token" "refresh_token" "oauth_nonce" "code_verifier" }}
        {{ . }}_cookie_config: {same_site: LAX}
        {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Verifies the ID token of a session and passes its claims on. The filter above has decrypted its cookie. */}}
{{- define "gateway.envoy.filter.idToken" -}}
{{- with .Values.authentication.oidc -}}
{{- if .enabled -}}
- name: corelane.id_token
  {{- if not .everywhere }}
  disabled: true
  {{- end }}
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
    providers:
      login:
        {{- $cache := include "gateway.duration" (list $ "authentication.jwt.refresh") }}
        {{- dict "root" $ "issuer" .issuer "audiences" (list .clientId) "url" .keysUrl "cluster" "oidckeys" "cache" $cache | include "gateway.envoy.jwtProvider" | nindent 8 }}
        from_cookies: [IdToken]
    rules:
    - match: {prefix: /}
      requires: {provider_name: login}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The provider's redirect and the logout, which need no login and whose path no route may take. */}}
{{- define "gateway.envoy.oidcPaths" -}}
{{- with .Values.authentication.oidc -}}
{{- if .enabled -}}
{{- range list .callbackPath .logoutPath }}
- name: oidc
  match: {path: {{ . | quote }}}
  direct_response: {status: 404}
  typed_per_filter_config:
    corelane.oidc: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, config: {}}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Not a name of a cluster of a route, which has a hyphen or an underscore. */}}
{{- define "gateway.envoy.oidcClusters" -}}
{{- with .Values.authentication.oidc -}}
{{ include "gateway.envoy.issuer" (list "oidc" .tokenEndpoint .ca) }}
{{ include "gateway.envoy.issuer" (list "oidckeys" .keysUrl .ca) }}
{{- end -}}
{{- end -}}

{{/* Folders of the Secret's files and of the files that name them to Envoy, as JSON. */}}
{{- define "gateway.oidc.paths" -}}
{{- with .Values.authentication.oidc -}}
{{- ternary (dict "folder" "/etc/envoy-oidc" "sds" "/etc/envoy") .files (not (not .secret)) | toJson -}}
{{- end -}}
{{- end -}}

{{/* A pod whose Secret lacks a key does not start: the kubelet names the key in an event. */}}
{{- define "gateway.oidc.volume" -}}
{{- $items := list -}}
{{- range list "client-secret" "hmac-secret" (ternary "" "token" .Values.authentication.jwt.enabled) | compact -}}
{{- $items = append $items (dict "key" . "path" .) -}}
{{- end -}}
- name: oidc
  projected:
    sources:
      - secret: {name: {{ .Values.authentication.oidc.secret | quote }}, items: {{ toJson $items }}}
      - secret: {name: {{ .Values.authentication.oidc.secret | quote }}, items: [{key: ca.crt, path: ca.crt}], optional: true}
{{- end -}}

{{- define "gateway.guards.oidc" -}}
{{- $auth := .Values.authentication -}}
{{- with $auth.oidc -}}
{{- if .enabled -}}
{{- range $key := list "issuer" "clientId" "authorizationEndpoint" "tokenEndpoint" "keysUrl" -}}
{{- if not (get $auth.oidc $key) -}}
{{- fail (printf "authentication.oidc.enabled is true but authentication.oidc.%s is empty: set it as the client's registration and the provider's /.well-known/openid-configuration show" $key) -}}
{{- end -}}
{{- end -}}
{{- if eq (not .secret) (not (and .files.folder .files.sds)) -}}
{{- fail "authentication.oidc.enabled is true, which needs the client's secret: set authentication.oidc.secret, or for a local process folder and sds of authentication.oidc.files" -}}
{{- end -}}
{{- if not (has "openid" .scopes) -}}
{{- fail (printf "authentication.oidc.scopes is %s: add openid, because the provider issues no ID token without it" (toJson .scopes)) -}}
{{- end -}}
{{- if eq .callbackPath .logoutPath -}}
{{- fail (printf "authentication.oidc.callbackPath and authentication.oidc.logoutPath are both %s: change one of them" .callbackPath) -}}
{{- end -}}
{{- if not (or $.Values.tls.enabled $.Values.listener.trustedHops) -}}
{{- fail "authentication.oidc.enabled is true but tls.enabled is not. Browsers return the session's cookies only over TLS: enable it, or set listener.trustedHops if a proxy in front terminates TLS" -}}
{{- end -}}
{{- $others := list (list "jwt" $auth.jwt.enabled true "authentication.jwt") (list "basicAuth" $auth.basicAuth.enabled $auth.basicAuth.everywhere "authentication.basicAuth") -}}
{{- /* Route objects have no keys. */ -}}
{{- $routes := or (not $.Values.routes) $.Values.routeObjects.enabled | ternary (append $.Values.routes dict) $.Values.routes -}}
{{- range $other := $others -}}
{{- range $route := $routes -}}
{{- $key := first $other -}}
{{- if and (index $other 1) (hasKey $route "oidc" | ternary $route.oidc $auth.oidc.everywhere) (hasKey $route $key | ternary (get $route $key) (index $other 2)) -}}
{{- fail (printf "%s needs a login, which removes the Authorization header that %s checks: set oidc or %s of a route to false, or disable one of them" (ternary (printf "the route %s" $route.name) "every request" (hasKey $route "name")) (last $other) $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
