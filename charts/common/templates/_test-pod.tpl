{{/*
A helm test pod. By default, it runs `corelane check` from the command line's image, which requests a URL.
*/}}

{{/* These labels must not match a selector, because no Service may send requests to this pod. */}}
{{- define "common.test.labels" -}}
app.kubernetes.io/name: corelane-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Takes the root context, the suffix of the pod's name, the arguments and, for a program other than `corelane check`,
its command and the value that contains its image. */}}
{{- define "common.test.pod" -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "common.fullname" .root }}-test-{{ .name }}
  labels:
    {{- merge (include "common.test.labels" .root | fromYaml) (dict "app.kubernetes.io/component" "test") (include "common.labels" .root | fromYaml) | toYaml | nindent 4 }}
  annotations:
    helm.sh/hook: test
    # A failed pod stays, so that its log can be read.
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  # Longer than the deadline of the program, to allow for pulling the image.
  activeDeadlineSeconds: 300
  {{- include "common.pod.identity" .root | nindent 2 }}
  securityContext:
    {{- include "common.pod.security" .root | nindent 4 }}
  {{- range $key := list "nodeSelector" "tolerations" }}
  {{- with get $.root.Values $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  containers:
    - name: check
      {{- include "common.container.imageOf" (list .root (.image | default "test.image")) | nindent 6 }}
      command: {{ .command | default (list "/corelane" "check") | toJson }}
      args:
        {{- toYaml .arguments | nindent 8 }}
      resources:
        {{- toYaml .root.Values.test.resources | nindent 8 }}
      securityContext:
        {{- include "common.container.security" .root | nindent 8 }}
{{- end -}}
