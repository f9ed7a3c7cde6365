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
# A container that asks the API server something mounts a token by itself.
automountServiceAccountToken: false
{{- end -}}
{{- end -}}

{{/*
The token of a container that asks the API server something: mounted by that container alone. Both take the
name of the volume.
*/}}

{{/* Where clients look for it. No other container has it. */}}
{{- define "common.token.mount" -}}
- name: {{ . | quote }}
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{- define "common.token.volume" -}}
- name: {{ . | quote }}
  projected:
    sources:
      # The kubelet renews it, and who mounts it reads it again.
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end -}}
