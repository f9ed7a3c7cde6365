{{/*
Checks that the schema cannot express. Each error names the value and the fix.
*/}}
{{- define "monitoring.guards" -}}
{{- include "monitoring.guards.scrape" . -}}
{{- include "monitoring.guards.objectives" . -}}
{{- if eq .Values.mode "standalone" -}}
{{- include "monitoring.guards.name" . -}}
{{- include "monitoring.guards.prometheus" . -}}
{{- include "monitoring.guards.alertmanager" . -}}
{{- include "monitoring.guards.grafana" . -}}
{{- end -}}
{{- end -}}

{{- define "monitoring.guards.scrape" -}}
{{- $interval := include "common.milliseconds" (list . "scrape.interval") | int64 -}}
{{- $timeout := include "common.milliseconds" (list . "scrape.timeout") | int64 -}}
{{- if or (lt $interval 1000) (gt $interval 15000) -}}
{{- fail (printf "scrape.interval is %v: set it to 1s to 15s. Rates over a minute need at least four scrapes" .Values.scrape.interval) -}}
{{- end -}}
{{- if or (lt $timeout 1) (gt $timeout $interval) -}}
{{- fail (printf "scrape.timeout is %v: it must not be longer than scrape.interval (%v)" .Values.scrape.timeout .Values.scrape.interval) -}}
{{- end -}}
{{- end -}}

{{- define "monitoring.guards.objectives" -}}
{{- $namespaces := include "monitoring.namespaces" . | fromYamlArray -}}
{{- $seen := dict -}}
{{- range $at, $override := .Values.objectives.overrides -}}
{{- with $override.namespace -}}
{{- if not (has . $namespaces) -}}
{{- fail (printf "objectives.overrides[%d].namespace is %s, whose pods are not scraped: set it to one of %s, or add it to namespaces" $at . (join ", " $namespaces)) -}}
{{- end -}}
{{- end -}}
{{- $name := printf "service %s" $override.service -}}
{{- with $override.route -}}{{- $name = printf "%s, route %s" $name . -}}{{- end -}}
{{- with $override.namespace -}}{{- $name = printf "%s, namespace %s" $name . -}}{{- end -}}
{{- if hasKey $seen $name -}}
{{- fail (printf "objectives.overrides[%v] and objectives.overrides[%d] are both about %s: write one of them with all its objectives" (get $seen $name) $at $name) -}}
{{- end -}}
{{- $_ := set $seen $name $at -}}
{{- end -}}
{{- end -}}

{{/* The label that a StatefulSet adds to its pods is its name plus 11 characters. A label can have at most 63
characters. */}}
{{- define "monitoring.guards.name" -}}
{{- $name := include "common.fullname" . -}}
{{- if gt (len $name) 39 -}}
{{- fail (printf "the name prefix %s has %d characters: set fullnameOverride to at most 39 characters, because the name of Alertmanager may have at most 52" $name (len $name)) -}}
{{- end -}}
{{- end -}}

{{- define "monitoring.guards.prometheus" -}}
{{- $hours := dict "h" 1 "d" 24 "w" 168 "y" 8760 -}}
{{- with .Values.prometheus.retention.time -}}
{{- if lt (mul (regexFind "^[0-9]+" . | int64) (regexFind "[a-z]$" . | get $hours)) 72 -}}
{{- fail (printf "prometheus.retention.time is %s, but the longest window of the objectives is three days: set it to 3d or more" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.prometheus -}}
{{- /* Rounded to megabytes. Like the volume's units, Prometheus' units are powers of two. */ -}}
{{- $units := dict "MB" 1 "GB" 1024 "TB" 1048576 "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- $kept := mul (regexFind "^[0-9]*" .retention.size | int64) (get $units (regexFind "..$" .retention.size) | int64) -}}
{{- if ge $kept (mul (regexFind "^[0-9]+" .persistence.size | int64) (regexFind "..$" .persistence.size | get $units | int64)) -}}
{{- fail (printf "prometheus.retention.size is %s, but prometheus.persistence.size is %s: set the retention to about 80%% of the volume" .retention.size .persistence.size) -}}
{{- end -}}
{{- end -}}
{{- $part := dict "root" . "App" "prometheus" -}}
{{- include "monitoring.part" $part -}}
{{- if and .Values.prometheus.rbac (eq (include "common.serviceAccountName" $part) "default") -}}
{{- fail "the service account of Prometheus is default, so all pods of the namespace would get its Role. Set prometheus.serviceAccount.name, or set prometheus.rbac to false and grant the permissions yourself" -}}
{{- end -}}
{{- end -}}

{{- define "monitoring.guards.alertmanager" -}}
{{- with .Values.alertmanager -}}
{{- if and .webhook .config.secret -}}
{{- fail (printf "alertmanager.webhook and alertmanager.config.secret are both set: leave alertmanager.webhook empty, and configure the receiver in the Secret %s" .config.secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "monitoring.guards.grafana" -}}
{{- if .Values.grafana.enabled -}}
{{- if not .Values.grafana.admin.secret -}}
{{- fail (printf "grafana.admin.secret is empty, and the chart creates no password. Create a Secret with the keys %s and %s and set its name, or set grafana.enabled to false" .Values.grafana.admin.userKey .Values.grafana.admin.passwordKey) -}}
{{- end -}}
{{- range $name := list "GF_SECURITY_ADMIN_PASSWORD" "GF_SECURITY_ADMIN_USER" -}}
{{- if hasKey ($.Values.grafana.settings | default dict) $name -}}
{{- fail (printf "grafana.settings has %s, which anyone who can read the release could see: put it into the Secret of grafana.admin.secret" $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.dashboards.namespace -}}
{{- fail "dashboards.namespace is set, but Grafana of this release mounts dashboards only from its own namespace: leave it empty, or set grafana.enabled to false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
