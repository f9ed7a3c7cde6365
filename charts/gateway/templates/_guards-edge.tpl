{{/*
Values of what faces clients that the schema cannot judge.
*/}}
{{- define "gateway.guards.listener" -}}
{{- with .Values.listener -}}
{{- if ge (mul 2 (int .connections)) (int .fileLimit) -}}
{{- fail (printf "listener.connections (%d) must be below half of listener.fileLimit (%d): each connection may need a second file descriptor for a replica. Reduce it, or increase listener.fileLimit if the container runtime grants more" (int .connections) (int .fileLimit)) -}}
{{- end -}}
{{- end -}}
{{- $total := include "gateway.envoy.total" . | int64 -}}
{{- $reply := include "common.milliseconds" (list . "upstream.timeout") | int64 -}}
{{- if and $total (or (not $reply) (lt $total $reply)) -}}
{{- fail (printf "listener.timeouts.total (%v) is shorter than upstream.timeout (%v), which it includes: increase it, or leave it empty to derive it" .Values.listener.timeouts.total .Values.upstream.timeout) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.tls" -}}
{{- $tls := .Values.tls -}}
{{- $files := list $tls.files.certificate $tls.files.key $tls.files.sds -}}
{{- if and $tls.secret (compact $files) -}}
{{- fail (printf "tls.secret (%s) and tls.files are both set: use the Secret in a cluster, the files for a local process" $tls.secret) -}}
{{- end -}}
{{- if and $tls.enabled (not $tls.secret) (ne (len (compact $files)) 3) -}}
{{- fail "tls.enabled is true but there is no certificate: set tls.secret. For a local process, set certificate, key and sds of tls.files" -}}
{{- end -}}
{{- if and $tls.enabled (not $tls.secret) (ne (dir $tls.files.certificate) (dir $tls.files.key)) -}}
{{- fail (printf "tls.files.certificate (%s) and tls.files.key (%s) must be in one folder, because Envoy watches it" $tls.files.certificate $tls.files.key) -}}
{{- end -}}
{{- if and $tls.enabled (eq (int .Values.service.port) (int .Values.service.httpsPort)) -}}
{{- fail (printf "service.port and service.httpsPort are both %d, but TLS needs its own port: change one of them" (int .Values.service.port)) -}}
{{- end -}}
{{- if and .Values.http3.enabled (not $tls.enabled) -}}
{{- fail "http3.enabled is true but tls.enabled is not: HTTP/3 is always encrypted: set tls.enabled and tls.secret" -}}
{{- end -}}
{{- if and .Values.http3.enabled .Values.listener.proxyProtocol -}}
{{- fail "http3.enabled and listener.proxyProtocol are both true: the PROXY protocol is for TCP only, so HTTP/3 clients would have the address of the load balancer. Disable one of them" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.jwt" -}}
{{- $jwt := .Values.authentication.jwt -}}
{{- $files := list $jwt.files.jwks $jwt.files.token $jwt.files.sds | compact -}}
{{- if and $jwt.enabled (not (and $jwt.issuer $jwt.audiences)) -}}
{{- fail "authentication.jwt.enabled is true but authentication.jwt.issuer or authentication.jwt.audiences is empty: the gateway would accept tokens of other issuers or for other services" -}}
{{- end -}}
{{- if and $jwt.secret $files -}}
{{- fail (printf "authentication.jwt.secret (%s) and authentication.jwt.files are both set: use the Secret in a cluster, the files for a local process" $jwt.secret) -}}
{{- end -}}
{{- if and $jwt.enabled (not $jwt.secret) (ne (len $files) 3) -}}
{{- fail "authentication.jwt.enabled is true but there are no keys: set authentication.jwt.secret. For a local process, set jwks, token and sds of authentication.jwt.files" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.overload" -}}
{{- range $key := list "reduceTimeouts" "resetStreams" -}}
{{- with get $.Values.overload $key -}}
{{- if and .from (ge (int .from) (int .to)) -}}
{{- fail (printf "overload.%s.from (%d) must be below overload.%s.to (%d)" $key (int .from) $key (int .to)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.tracing" -}}
{{- if and .Values.tracing.enabled (not .Values.tracing.host) -}}
{{- fail "tracing.enabled is true but tracing.host is empty: set it to the name or address of an OpenTelemetry collector" -}}
{{- end -}}
{{- end -}}
