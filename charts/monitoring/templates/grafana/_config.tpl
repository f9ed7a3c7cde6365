{{/*
What Grafana is provisioned with, of mode standalone: its own forms, as documented under "Provision Grafana". All
take the root context.
*/}}

{{- define "monitoring.grafana.dataSources" -}}
apiVersion: 1
# What is taken out here goes from Grafana's own database as well.
prune: true
datasources:
  - name: Prometheus
    uid: prometheus
    type: prometheus
    access: proxy
    url: http://{{ include "monitoring.address" (list . "prometheus") }}{{ include "monitoring.path" (list . "prometheus") }}
    isDefault: true
    editable: false
    jsonData:
      httpMethod: POST
      prometheusType: Prometheus
      # The shortest step: below it a rate has no two scrapes to go by.
      timeInterval: {{ .Values.scrape.interval }}
      {{- with .Values.grafana.traceUrl }}
      exemplarTraceIdDestinations:
        # Grafana replaces variables of the environment in this file; $$ is a dollar sign.
        - {name: trace_id, urlDisplayLabel: Trace, url: {{ replace "{trace}" "$${__value.raw}" . | quote }}}
      {{- end }}
  {{- if include "monitoring.runs" (list . "alertmanager") }}
  - name: Alertmanager
    uid: alertmanager
    type: alertmanager
    access: proxy
    url: http://{{ include "monitoring.address" (list . "alertmanager") }}{{ include "monitoring.path" (list . "alertmanager") }}
    editable: false
    jsonData:
      implementation: prometheus
  {{- end }}
{{- end -}}

{{- define "monitoring.grafana.providers" -}}
apiVersion: 1
providers:
  - name: corelane
    orgId: 1
    type: file
    folder: {{ .Values.grafana.folder | quote }}
    # The files are the source of the dashboards. Changes in the browser would be lost at the next start.
    allowUiUpdates: false
    disableDeletion: false
    updateIntervalSeconds: 30
    options:
      path: /etc/grafana-dashboards
{{- end -}}

{{- define "monitoring.grafana.env" -}}
- name: GF_SECURITY_ADMIN_USER
  valueFrom:
    secretKeyRef:
      name: {{ .Values.grafana.admin.secret | quote }}
      key: {{ .Values.grafana.admin.userKey | quote }}
- name: GF_SECURITY_ADMIN_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .Values.grafana.admin.secret | quote }}
      key: {{ .Values.grafana.admin.passwordKey | quote }}
{{- $settings := include "monitoring.grafana.settings" . | fromYaml | merge (deepCopy (.Values.grafana.settings | default dict)) }}
{{- range $name, $value := $settings }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Settings that are not secret. Nothing here asks the internet for anything. */}}
{{- define "monitoring.grafana.settings" -}}
GF_SERVER_HTTP_PORT: {{ .Values.grafana.port | quote }}
GF_SERVER_ROOT_URL: {{ include "monitoring.url" (list . "grafana") | quote }}
GF_SERVER_SERVE_FROM_SUB_PATH: {{ ne (include "monitoring.path" (list . "grafana")) "" | quote }}
GF_PATHS_DATA: /data
GF_PATHS_PLUGINS: /data/plugins
GF_PATHS_PROVISIONING: /etc/grafana-provisioning
GF_LOG_MODE: console
GF_ANALYTICS_REPORTING_ENABLED: "false"
GF_ANALYTICS_CHECK_FOR_UPDATES: "false"
GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES: "false"
GF_PLUGINS_PREINSTALL_DISABLED: "true"
GF_NEWS_NEWS_FEED_ENABLED: "false"
GF_USERS_ALLOW_SIGN_UP: "false"
GF_AUTH_ANONYMOUS_ENABLED: {{ .Values.grafana.anonymous | quote }}
GF_AUTH_ANONYMOUS_ORG_ROLE: Viewer
{{- end -}}
