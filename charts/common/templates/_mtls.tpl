{{/*
Mutual TLS between gateways and replicas: each side has a certificate that names its service account. A chart has the
mtls value, and a parent chart has global.mtls for all its charts.
*/}}

{{/* An mtls value. Takes the root context and the key. */}}
{{- define "common.mtls.value" -}}
{{- $key := last . -}}
{{- with first . -}}
{{- $shared := (.Values.global | default dict).mtls | default dict -}}
{{- get .Values.mtls $key | default (get $shared $key) -}}
{{- end -}}
{{- end -}}

{{/* Not empty if mutual TLS is enabled. */}}
{{- define "common.mtls" -}}
{{- if eq (include "common.mtls.value" (list . "enabled")) "true" -}}
yes
{{- end -}}
{{- end -}}

{{/* The identity of a service account. Takes the root context, a namespace and the account. */}}
{{- define "common.mtls.identity" -}}
{{- $domain := include "common.mtls.value" (list (first .) "trustDomain") | default "cluster.local" -}}
{{- printf "spiffe://%s/ns/%s/sa/%s" $domain (index . 1) (last .) -}}
{{- end -}}

{{/* The identity of the chart's own pods. */}}
{{- define "common.mtls.own" -}}
{{- include "common.mtls.identity" (list . .Release.Namespace (include "common.serviceAccountName" .)) -}}
{{- end -}}

{{/* The objects that the Secret or its volume needs: a Certificate for cert-manager, and the CAs. Takes the root
context and the name of the Secret, which is empty without mutual TLS. */}}
{{- define "common.mtls.objects" -}}
{{- $secret := last . -}}
{{- with first . -}}
{{- $name := include "common.fullname" . -}}
{{- $issuer := include "common.mtls.issuer" . | fromJson -}}
{{- if and $secret $issuer.name }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  {{- include "common.metadata" . | nindent 2 }}
spec:
  secretName: {{ $secret | quote }}
  duration: {{ $issuer.duration }}
  renewBefore: {{ $issuer.renewBefore }}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [digital signature, server auth, client auth]
  uris: [{{ include "common.mtls.own" . | quote }}]
  dnsNames: [{{ printf "%s.%s.svc" $name .Release.Namespace | quote }}]
  issuerRef: {name: {{ $issuer.name | quote }}, kind: {{ $issuer.kind }}, group: {{ $issuer.group | quote }}}
{{- end }}
{{- if $secret }}
{{- with include "common.mtls.value" (list . "caBundle") }}
---
# The kubelet updates the file, so it is not part of the pod's checksum.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "common.mtls.bundle" $ | quote }}
  labels:
    {{- include "common.labels" (first $) | nindent 4 }}
data:
  ca.crt: |
    {{- . | trim | nindent 4 }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "common.mtls.bundle" -}}
{{- include "common.fullname" (first .) | trunc 59 | trimSuffix "-" }}-cas
{{- end -}}

{{/* The cert-manager issuer as JSON, from the chart itself or from a parent chart. */}}
{{- define "common.mtls.issuer" -}}
{{- $shared := ((.Values.global | default dict).mtls | default dict).issuer -}}
{{- $usual := dict "name" "" "kind" "Issuer" "group" "cert-manager.io" "duration" "720h" "renewBefore" "240h" -}}
{{- merge (.Values.mtls.issuer | default $shared | default dict | deepCopy) $usual | toJson -}}
{{- end -}}

{{/* The volume with the certificate, its key and the CAs. Takes the root context and the name of the Secret. */}}
{{- define "common.mtls.volume" -}}
{{- if and (include "common.mtls" (first .)) (include "common.mtls.value" (list (first .) "caBundle")) -}}
projected:
  sources:
    - secret:
        name: {{ last . | quote }}
        items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
    - configMap: {name: {{ include "common.mtls.bundle" . | quote }}}
{{- else -}}
secret:
  secretName: {{ last . | quote }}
{{- end -}}
{{- end -}}

{{- define "common.guards.mtls" -}}
{{- $bundle := include "common.mtls.value" (list . "caBundle") -}}
{{- if and $bundle (not (contains "-----BEGIN CERTIFICATE-----" $bundle)) -}}
{{- fail "mtls.caBundle has no certificate in PEM (-----BEGIN CERTIFICATE-----): set it to the text of the CA file" -}}
{{- end -}}
{{- $issuer := include "common.mtls.issuer" . | fromJson -}}
{{- if le (include "common.duration" (list $issuer.duration "mtls.issuer.duration") | int64) (include "common.duration" (list $issuer.renewBefore "mtls.issuer.renewBefore") | int64) -}}
{{- fail (printf "mtls.issuer.renewBefore (%v) must be shorter than mtls.issuer.duration (%v)" $issuer.renewBefore $issuer.duration) -}}
{{- end -}}
{{- if contains "PRIVATE KEY-----" $bundle -}}
{{- fail "mtls.caBundle has a private key, which everybody could read in the ConfigMap: remove the key, and replace the CA" -}}
{{- end -}}
{{- end -}}

{{/* The part of the release notes about the chart's Secret. Takes the root context and the name of the Secret. */}}
{{- define "common.notes.mtls" }}

{{ if (include "common.mtls.issuer" (first .) | fromJson).name -}}
Mutual TLS: cert-manager writes the Secret {{ last . }}, with a certificate for
{{- else -}}
Mutual TLS: the Secret {{ last . }} must have tls.crt, tls.key and ca.crt, and the certificate must name
{{- end }}
  URI:{{ include "common.mtls.own" (first .) }}
{{- end -}}
