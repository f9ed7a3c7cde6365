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
{{- $file | toYaml -}}
{{- end -}}
