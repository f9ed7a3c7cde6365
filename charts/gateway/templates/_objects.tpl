{{/* Each Secret by its name, even for list and watch, because the agent requests one name at a time. */}}
{{- define "gateway.objects.secrets" -}}
{{- $names := dict -}}
{{- range .Values.routeObjects.certificates -}}
{{- $namespace := .namespace | default $.Release.Namespace -}}
{{- $_ := set $names $namespace (append (get $names $namespace | default list) .name | uniq) -}}
{{- end -}}
{{- $role := printf "%s-certificates" (include "gateway.agent.role" .) -}}
{{- range $namespace := keys $names | sortAlpha }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "gateway.agent.metadata" (list $ $namespace $role) | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: {{ get $names $namespace | toJson }}
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "gateway.agent.metadata" (list $ $namespace $role) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $role | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "common.serviceAccountName" $ | quote }}
    namespace: {{ $.Release.Namespace | quote }}
{{- end }}
{{- end -}}

{{- define "gateway.objects.allowed" -}}
allowedRoutes:
  namespaces:
    from: {{ .Values.routeObjects.allowedNamespaces | quote }}
    {{- with .Values.routeObjects.namespaceLabels }}
    selector:
      matchLabels:
        {{- toYaml . | nindent 8 }}
    {{- end }}
{{- end -}}

{{/* Not empty if requests without TLS reach routes. */}}
{{- define "gateway.objects.plain" -}}
{{- if or (not .Values.tls.enabled) (eq .Values.tls.plain "serve") -}}
yes
{{- end -}}
{{- end -}}

{{/* Not empty if the agent adds certificates to the TLS listeners and therefore manages these listeners too. */}}
{{- define "gateway.objects.tls" -}}
{{- if and .Values.routeObjects.enabled .Values.tls.enabled (include "gateway.dynamic" .) -}}
yes
{{- end -}}
{{- end -}}

{{/* The TLS listeners as JSON. To choose a certificate by hostname, Envoy needs the name before the handshake. */}}
{{- define "gateway.objects.listeners" -}}
{{- $inspector := dict "name" "envoy.filters.listener.tls_inspector" "typed_config" (dict "@type" "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector") -}}
{{- $listeners := list -}}
{{- /* Added to the first listener, which contains what the others repeat. */ -}}
{{- range printf "%s%s" (include "gateway.envoy.plainListener" .) (include "gateway.envoy.encryptedListeners" .) | fromYamlArray | rest -}}
{{- if ne .name "ingress_http3" -}}
{{- $_ := set . "listener_filters" (append (.listener_filters | default list) $inspector) -}}
{{- end -}}
{{- $listeners = append $listeners . -}}
{{- end -}}
{{- toJson $listeners -}}
{{- end -}}

{{- define "gateway.objects.flags" -}}
{{- if .Values.routeObjects.enabled -}}
- --gateway={{ .Release.Namespace }}/{{ .Values.routeObjects.gateway | default (include "common.fullname" .) }}
- --gateway-service={{ include "common.fullname" . }}
{{- if include "gateway.objects.plain" . }}
- --gateway-http-port={{ .Values.service.port }}
{{- end }}
{{- if .Values.tls.enabled }}
- --gateway-https-port={{ .Values.service.httpsPort }}
- --gateway-secret={{ .Values.tls.secret | default "local" }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Routes and clusters that the agent copies for route objects, as JSON. They are rendered like the routes in the
values, but name no real service. Each cluster has a second version for replicas with a BackendTLSPolicy. */}}
{{- define "gateway.prototypes" -}}
{{- $tcp := dict "tcp" true -}}
{{- $identity := include "common.mtls.identity" (list . "PROTOTYPE_NAMESPACE" "PROTOTYPE_SERVICE") -}}
{{- $routes := list
  (dict "name" "http" "protocol" "http1" "health" $tcp "upgrade" list)
  (dict "name" "upgrade" "protocol" "http1" "health" $tcp "upgrade" (list "websocket"))
  (dict "name" "grpc" "protocol" "grpc" "health" $tcp "upgrade" list)
  (dict "name" "http1" "protocol" "http1" "health" $tcp)
  (dict "name" "http2" "protocol" "http2" "health" $tcp)
  (dict "name" "http1-admin" "protocol" "http1")
  (dict "name" "http2-admin" "protocol" "http2") -}}
{{- range $routes -}}
{{- $_ := set . "service" (dict "namespace" "prototype" "name" .name "port" "any" "mtls" $.Values.routeObjects.mtls "identity" $identity) -}}
{{- end -}}
{{- $root := omit . "Values" | merge (dict "Values" (merge (dict "routes" $routes) .Values)) -}}
{{- $services := include "gateway.services" $root | fromJson -}}
{{- $found := dict -}}
{{- range $route := include "gateway.routes" $root | fromJsonArray -}}
{{- $policies := dict -}}
{{- $rules := list -}}
{{- range .rules -}}
{{- $rules = append $rules (include "gateway.envoy.rule" (dict "root" $root "route" $route "rule" . "services" $services "policies" $policies)) -}}
{{- end -}}
{{- $_ := set $found .name (join "\n" $rules | fromYamlArray) -}}
{{- end -}}
{{- $clusters := dict -}}
{{- range slice $routes 3 -}}
{{- $service := set (printf "prototype-%s-any" .name | get $services) "cluster" "corelane-prototype" -}}
{{- if $service.identity -}}
{{- $service = merge (dict "name" "PROTOTYPE_SERVICE" "namespace" "PROTOTYPE_NAMESPACE") $service -}}
{{- end -}}
{{- $_ := set $clusters .name (include "gateway.envoy.cluster" (dict "root" $root "service" $service) | fromYamlArray | first) -}}
{{- $policy := dict "client" (not (not $service.identity)) -}}
{{- $service = merge (dict "policy" $policy "identity" "PROTOTYPE_IDENTITY") $service -}}
{{- $_ := set $clusters (printf "%s-tls" .name) (include "gateway.envoy.cluster" (dict "root" $root "service" $service) | fromYamlArray | first) -}}
{{- end -}}
{{- dict "routes" (pick $found "http" "upgrade" "grpc") "clusters" $clusters | toJson -}}
{{- end -}}
