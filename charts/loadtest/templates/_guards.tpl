{{/*
Checks that the schema cannot express. Each error names the value and the fix.
*/}}
{{- define "loadtest.guards" -}}
{{- include "loadtest.guards.scenario" . -}}
{{- include "loadtest.guards.name" . -}}
{{- include "loadtest.guards.times" . -}}
{{- include "loadtest.guards.settings" . -}}
{{- include "loadtest.guards.remoteWrite" . -}}
{{- end -}}

{{- define "loadtest.guards.scenario" -}}
{{- $known := list -}}
{{- range $path, $_ := .Files.Glob "scenarios/*.js" -}}
{{- $known = base $path | trimSuffix ".js" | append $known -}}
{{- end -}}
{{- if not (has .Values.scenario $known) -}}
{{- fail (printf "scenario is %s, which does not exist: choose one of %s" .Values.scenario (sortAlpha $known | join ", ")) -}}
{{- end -}}
{{- end -}}

{{/* A runner's name in the Service, FULLNAME-REVISION-INDEX, can have at most 63 characters (RFC 1123). */}}
{{- define "loadtest.guards.name" -}}
{{- $name := include "common.fullname" . -}}
{{- if gt (len $name) 46 -}}
{{- fail (printf "the name prefix %s has %d characters: set fullnameOverride to at most 46 characters, because names of runners may have at most 63" $name (len $name)) -}}
{{- end -}}
{{- end -}}

{{- define "loadtest.guards.times" -}}
{{- $start := include "common.seconds" (list . "start.deadline") | int -}}
{{- if lt $start 1 -}}
{{- fail (printf "start.deadline is %v: set it to 1s or more" .Values.start.deadline) -}}
{{- end -}}
{{- if le (include "common.seconds" (list . "deadline") | int) $start -}}
{{- fail (printf "deadline is %v and start.deadline is %v: deadline must be longer, because it includes the start" .Values.deadline .Values.start.deadline) -}}
{{- end -}}
{{- end -}}

{{- define "loadtest.guards.settings" -}}
{{- $others := dict "BASE_URL" "target.url" "DIRECT_URL" "target.direct" "REPLICA_NAMES" "target.replicas" "TOKEN" "target.token.secret" -}}
{{- range $name, $value := $others -}}
{{- if hasKey ($.Values.settings | default dict) $name -}}
{{- fail (printf "settings has %s, which is %s here: remove it" $name $value) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.settings -}}
{{- if not (regexMatch "^[A-Z][A-Z0-9_]*$" $name) -}}
{{- fail (printf "settings has %s: give the name of a variable, such as RATE" $name) -}}
{{- end -}}
{{- if or (hasPrefix "K6_" $name) (has $name (list "SUMMARY_FILE" "RUNNER" "RUNNERS" "TESTID")) -}}
{{- fail (printf "settings has %s, which is not a setting of scenarios: remove it. The chart sets shares, tags, summaries and outputs" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "loadtest.guards.remoteWrite" -}}
{{- with .Values.remoteWrite -}}
{{- if and (ne .authentication "none") (not .secret) -}}
{{- fail (printf "remoteWrite.authentication is %s but remoteWrite.secret is empty: set it to the name of a Secret with the credentials" .authentication) -}}
{{- end -}}
{{- if and .secret (eq .authentication "none") -}}
{{- fail (printf "remoteWrite.secret is %s but remoteWrite.authentication is none: set it to basic or bearer, or remove the Secret" .secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}
