{{/*
Parts of a runner's pod. The image has no shell, so arguments that differ between runners contain $(RUNNER), which the
kubelet expands.
*/}}

{{/* A runner's share of the load, as a file for `k6 run --config`. Takes the root context and the index. */}}
{{- define "loadtest.share" -}}
{{- $runners := int (first .).Values.runners -}}
{{- $index := last . -}}
{{- $bounds := list -}}
{{- range $bound := until (add1 $runners | int) -}}
{{- $bounds = append $bounds (printf "%d/%d" $bound $runners) -}}
{{- end -}}
{{- $segment := printf "%s:%s" (index $bounds $index) (index $bounds (add1 $index | int)) -}}
{{- dict "executionSegment" $segment "executionSegmentSequence" (join "," $bounds) | toJson -}}
{{- end -}}

{{- define "loadtest.arguments" -}}
- run
# It waits until all runners are ready (charts/loadtest/files/start.js).
- --paused
- --address=:6565
- --config=/shares/$(RUNNER).json
# Each series belongs to one run and one runner. Otherwise runners would overwrite each other's
# series, and sums would be wrong.
- --tag=testid=$(TESTID)
- --tag=runner=$(RUNNER)
# Only one stream, because lines of a second stream would mix with the summary, which is all that k6
# itself prints.
- --log-output=stdout
- --quiet
- --no-usage-report
{{- if .Values.remoteWrite.url }}
- --out=experimental-prometheus-rw
{{- end }}
- /loadtests/scenarios/{{ .Values.scenario }}.js
{{- end -}}

{{- define "loadtest.environment" -}}
- name: RUNNER
  valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
- name: RUNNERS
  value: {{ .Values.runners | quote }}
{{- if .Values.testid }}
- name: TESTID
  value: {{ .Values.testid | quote }}
{{- else }}
- name: JOB_UID
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/controller-uid']"}}
- name: TESTID
  value: {{ .Values.scenario }}-$(JOB_UID)
{{- end }}
- name: BASE_URL
  value: {{ include "loadtest.target" . | quote }}
{{- with .Values.target.direct }}
- name: DIRECT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.target.replicas }}
- name: REPLICA_NAMES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.target.token }}
{{- if .secret }}
- name: TOKEN
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .key | quote }}}}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name | quote }}
  # Helm would write a million as 1e+06.
  value: {{ ternary (int64 $value) $value (and (kindIs "float64" $value) (eq (floor $value) $value)) | quote }}
{{- end }}
{{- if .Values.authorities.configMap }}
# Go reads this file instead of the system's CA file (crypto/x509).
- name: SSL_CERT_FILE
  value: /authorities/{{ .Values.authorities.key }}
{{- end }}
{{- include "loadtest.environment.remoteWrite" . }}
{{- end -}}

{{- define "loadtest.environment.remoteWrite" -}}
{{- with .Values.remoteWrite }}
{{- if .url }}
- name: K6_PROMETHEUS_RW_SERVER_URL
  value: {{ .url | quote }}
- name: K6_PROMETHEUS_RW_TREND_STATS
  value: {{ join "," .trendStats | quote }}
- name: K6_PROMETHEUS_RW_PUSH_INTERVAL
  value: {{ .interval | quote }}
# The series end with the run. Otherwise they would keep their last value for five minutes.
- name: K6_PROMETHEUS_RW_STALE_MARKERS
  value: "true"
{{- range $name, $value := .headers }}
- name: K6_PROMETHEUS_RW_HEADERS_{{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- if eq .authentication "basic" }}
- name: K6_PROMETHEUS_RW_USERNAME
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .usernameKey | quote }}}}
- name: K6_PROMETHEUS_RW_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .passwordKey | quote }}}}
{{- else if eq .authentication "bearer" }}
- name: K6_PROMETHEUS_RW_BEARER_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .secret | quote }}, key: {{ .tokenKey | quote }}}}
{{- end }}
{{- if .certificate }}
- name: K6_PROMETHEUS_RW_CLIENT_CERTIFICATE
  value: /certificate/tls.crt
- name: K6_PROMETHEUS_RW_CLIENT_CERTIFICATE_KEY
  value: /certificate/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "loadtest.mounts" -}}
# Scripts use these folders to import each other.
- {name: scenario, mountPath: /loadtests/scenarios, readOnly: true}
- {name: lib, mountPath: /loadtests/lib, readOnly: true}
- {name: shares, mountPath: /shares, readOnly: true}
{{- if .Values.authorities.configMap }}
- {name: authorities, mountPath: /authorities, readOnly: true}
{{- end }}
{{- if .Values.remoteWrite.certificate }}
- {name: certificate, mountPath: /certificate, readOnly: true}
{{- end }}
{{- end -}}

{{- define "loadtest.volumes" -}}
{{- range $part := list "scenario" "lib" "shares" }}
- name: {{ $part | quote }}
  configMap:
    name: {{ include "loadtest.job" $ }}-{{ $part }}
{{- end }}
{{- with .Values.authorities.configMap }}
- name: authorities
  configMap:
    name: {{ . | quote }}
{{- end }}
{{- with .Values.remoteWrite.certificate }}
- name: certificate
  secret:
    secretName: {{ . | quote }}
    # The runner's group can read the key.
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "loadtest.resources" -}}
{{- $memory := dict "memory" .Values.memory -}}
{{- $cpu := ternary (dict "cpu" (toString .Values.cpu)) dict (ne (.Values.cpu | default "" | toString) "") -}}
{{- $derived := dict "requests" (merge $cpu $memory) "limits" $memory -}}
{{- .Values.resources | default $derived | toYaml -}}
{{- end -}}
