{{- define "common.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "common.serviceAccountName" . | quote }}
  labels:
    {{- include "common.labels" . | nindent 4 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# A container that sends requests to the API server mounts its own token.
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/*
The token of a container that sends requests to the API server. Only that container mounts it. Both templates take the
name of the volume.
*/}}

{{/* The path where clients look for the token. No other container has it. */}}
{{- define "common.token.mount" -}}
- name: {{ . | quote }}
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{- define "common.token.volume" -}}
- name: {{ . | quote }}
  projected:
    sources:
      # The kubelet renews the token, and programs reread it.
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end -}}
