{{/*
JSON Web Tokens for writes. The gateway replaces a valid token of a client with its own, so replicas need
neither issuer nor keys.
*/}}
{{- define "gateway.envoy.jwt" -}}
{{- with .Values.authentication.jwt -}}
{{- $paths := include "gateway.jwt.paths" $ | fromYaml -}}
- name: envoy.filters.http.jwt_authn
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
    providers:
      issuer:
        issuer: {{ .issuer | quote }}
        audiences: {{ .audiences | toJson }}
        # Otherwise a token without an expiry would be valid forever.
        require_expiration: true
        clock_skew_seconds: {{ div (include "common.milliseconds" (list $ "authentication.jwt.leeway") | int64) 1000 }}
        from_headers: [{name: authorization, value_prefix: "Bearer "}]
        local_jwks: {filename: {{ $paths.jwks | quote }}}
    rules:
    # What is not known to be harmless needs a token, whatever methods there will be.
    - match:
        prefix: {{ .prefix | quote }}
        headers: [{name: ":method", string_match: {safe_regex: {regex: GET|HEAD|OPTIONS}}, invert_match: true}]
      requires: {provider_name: issuer}
- name: envoy.filters.http.credential_injector
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
            path_config_source: {path: {{ $paths.sds | quote }}}
{{- end -}}
{{- end -}}

{{/* Where the files are: as mounted in the pod, or as the values of a local process say. */}}
{{- define "gateway.jwt.paths" -}}
{{- with .Values.authentication.jwt -}}
{{- if .secret -}}
{jwks: /etc/envoy-jwt/jwks.json, token: /etc/envoy-jwt/token, sds: /etc/envoy/credential.yaml}
{{- else -}}
{{- .files | toJson -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The file that names the gateway's token to Envoy: its secret discovery service. */}}
{{- define "gateway.envoy.credential" -}}
{{- $paths := include "gateway.jwt.paths" . | fromYaml -}}
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: replicas
  generic_secret:
    secret: {filename: {{ $paths.token | quote }}, watched_directory: {path: {{ dir $paths.token | quote }}}}
{{- end -}}
