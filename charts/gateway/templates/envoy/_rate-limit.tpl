{{/*
Token buckets of this process; no other gateway is asked. The reply's form is that of _local-replies.tpl.
*/}}
{{- define "gateway.envoy.rateLimit" -}}
{{- with .Values.rateLimit -}}
- name: envoy.filters.http.local_ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
    stat_prefix: ingress
    token_bucket: {max_tokens: {{ int .burst }}, tokens_per_fill: {{ int .requests }}, fill_interval: 1s}
    filter_enabled: {default_value: {numerator: 100}, runtime_key: rate_limit.enabled}
    filter_enforced: {default_value: {numerator: 100}, runtime_key: rate_limit.enforced}
    enable_retry_after_header: true
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
