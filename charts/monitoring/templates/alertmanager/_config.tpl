{{/*
Alertmanager's configuration file, of mode standalone: the one of dashboards/alertmanager, with the address of the
values in its receivers. Takes the root context.
*/}}
{{- define "monitoring.alertmanager.config" -}}
{{- $file := .Files.Get "alertmanager/alertmanager.yaml" | fromYaml -}}
{{- range $receiver := $file.receivers -}}
{{- range $webhook := $receiver.webhook_configs -}}
{{- $_ := set $webhook "url" $.Values.alertmanager.webhook -}}
{{- end -}}
{{- if not $.Values.alertmanager.webhook -}}
{{- $_ := unset $receiver "webhook_configs" -}}
{{- end -}}
{{- end -}}
{{- $watchdog := dict "name" "watchdog" -}}
{{- with .Values.alertmanager.watchdog -}}
{{- $_ := dict "url" . "send_resolved" false | list | set $watchdog "webhook_configs" -}}
{{- end -}}
{{- $_ := append $file.receivers $watchdog | set $file "receivers" -}}
{{- $route := dict "receiver" "watchdog" "matchers" (list "alertname=\"Watchdog\"") "group_wait" "0s" "group_interval" "1m" "repeat_interval" "1m" -}}
{{- $_ := prepend $file.route.routes $route | set $file.route "routes" -}}
{{- $file | toYaml -}}
{{- end -}}
