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
{{- end -}}

{{- define "gateway.api.accessLog" -}}
accessLog:
  {{- with (include "gateway.envoy.accessLog" . | fromYaml).access_log }}
  settings:
    - format:
        type: JSON
        json:
          {{- (first .).typed_config.log_format.json_format | toYaml | nindent 10 }}
      sinks:
        - type: File
          file:
            path: /dev/stdout
  {{- else }}
  disable: true
  {{- end }}
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
{{- end -}}
