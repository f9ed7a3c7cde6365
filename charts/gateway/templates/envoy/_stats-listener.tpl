{{/*
The only way to the admin interface from outside: two paths, GET only. Prometheus and the kubelet
need these two; everything else there changes or reveals something.
*/}}
{{- define "gateway.envoy.statsListener" -}}
- name: stats
  stat_prefix: stats
  address: {socket_address: {address: {{ .Values.stats.address | quote }}, port_value: {{ .Values.stats.port }}}}
  # Probes and scrapes must work when clients have used up the connection limit or the memory.
  ignore_global_conn_limit: true
  bypass_overload_manager: true
  per_connection_buffer_limit_bytes: 32768
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: stats
        server_header_transformation: PASS_THROUGH
        generate_request_id: false
        common_http_protocol_options: {idle_timeout: 120s}
        request_headers_timeout: 5s
        request_timeout: 10s
        local_reply_config: *local_replies
        route_config:
          name: stats
          virtual_hosts:
          - name: admin
            domains: ["*"]
            routes:
            {{- range list "/stats/prometheus" "/ready" }}
            - match:
                path: {{ . }}
                headers: [{name: ":method", string_match: {exact: GET}}]
              route: {cluster: admin, timeout: 10s}
            {{- end }}
            - match: {prefix: /}
              direct_response: {status: 404}
        http_filters:
        {{- include "gateway.envoy.routerFilter" . | nindent 8 }}
{{- end -}}

{{- define "gateway.envoy.adminCluster" -}}
- name: admin
  type: STATIC
  connect_timeout: 0.250s
  load_assignment:
    cluster_name: admin
    endpoints:
    - lb_endpoints:
      - endpoint:
          address: {socket_address: {address: 127.0.0.1, port_value: {{ .Values.admin.port }}}}
{{- end -}}
