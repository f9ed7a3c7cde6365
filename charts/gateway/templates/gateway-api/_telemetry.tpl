{{/*
What Envoy is started with, tells and counts. The access log and the overload manager are those of mode
envoy, read out of its templates.
*/}}

{{/* Envoy Gateway's own overload manager has fixed limits; EnvoyProxy lets the bootstrap be patched. */}}
{{- define "gateway.api.bootstrap" -}}
bootstrap:
  type: JSONPatch
  jsonPatches:
    - op: replace
      path: /overload_manager
      value:
        {{- (include "gateway.envoy.overload" . | fromYaml).overload_manager | toYaml | nindent 8 }}
    {{- range $key, $value := include "gateway.envoy.workers" . | fromYaml }}
    - op: add
      path: /{{ $key }}
      value: {{ $value }}
    {{- end }}
    - op: add
      path: /layered_runtime/layers/-
      value:
        name: static
        static_layer: {{ include "gateway.envoy.runtimeKeys" . }}
{{- end -}}

{{- define "gateway.api.accessLog" -}}
accessLog:
  {{- with (include "gateway.envoy.accessLog" . | fromYaml).access_log }}
  settings:
    - format:
        type: JSON
        json:
          {{- (first .).typed_config.log_format.json_format | toYaml | nindent 10 }}
      {{- include "gateway.api.logged" $ | nindent 6 }}
      sinks:
        - type: File
          file:
            path: /dev/stdout
  {{- else }}
  disable: true
  {{- end }}
{{- end -}}

{{/* The logged requests, as one CEL expression, because Envoy Gateway 1.9 requires all of several to match. In order:
errors, slow requests, replies by Envoy itself except for the rate limit, and the sample. The sample compares the first
32 bits of the random request ID with the percentage of 2^32. */}}
{{- define "gateway.api.logged" -}}
{{- with .Values.accessLog -}}
{{- if lt (float64 .percent) 100.0 -}}
matches:
  - >-
    response.code >= {{ int .status }}
    || request.duration >= duration('{{ include "gateway.duration" (list $ "accessLog.slow") }}')
    || (response.flags != 0 && response.code != 429)
    || request.id < '{{ mulf .percent 42949672.96 | int64 | printf "%08x" }}'
{{- end -}}
{{- end -}}
{{- end -}}

{{/* No client can have its requests traced. */}}
{{- define "gateway.api.tracing" -}}
{{- with .Values.tracing -}}
tracing:
  samplingFraction:
    numerator: {{ mulf .percent 10000 | int }}
    denominator: 1000000
  clientSamplingFraction:
    numerator: 0
  provider:
    type: OpenTelemetry
    host: {{ .host | quote }}
    port: {{ .port }}
    serviceName: {{ .serviceName | quote }}
{{- end -}}
{{- end -}}

{{/* Envoy does not even count what is not listed. The names are those of Envoy Gateway's listeners and
clusters; its shutdown manager needs those of listeners. */}}
{{- define "gateway.api.metrics" -}}
metrics:
  matches:
    - {type: Prefix, value: server.}
    - {type: Prefix, value: listener_manager.}
    - {type: Prefix, value: cluster_manager.}
    - {type: RegularExpression, value: 'listener\..*\.downstream_.*'}
    - {type: RegularExpression, value: 'http\.https?-[0-9]+\.downstream_.*'}
    - {type: RegularExpression, value: 'cluster\..*\.(upstream|membership|update)_.*'}
    - {type: RegularExpression, value: 'cluster\..*\.(health_check|outlier_detection|circuit_breakers\.default)\..*'}
    - {type: Suffix, value: lb_healthy_panic}
    - {type: Prefix, value: overload.}
    {{- if .Values.tls.enabled }}
    - {type: RegularExpression, value: 'listener\..*\.(ssl|server_ssl_socket_factory)\..*'}
    {{- end }}
    {{- if .Values.rateLimit.enabled }}
    - {type: Prefix, value: http_local_rate_limiter.}
    {{- end }}
    {{- if .Values.tracing.enabled }}
    - {type: Prefix, value: tracing.opentelemetry.}
    {{- end }}
{{- end -}}
