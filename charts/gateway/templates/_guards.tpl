{{/*
Checks that the schema cannot express. Each error names the value and the fix.
*/}}
{{- define "gateway.guards" -}}
{{- include "common.guards.renamed" (list .Values "" (dict "exclusive" "pinning (exclusive or shared)")) -}}
{{- include "gateway.guards.mode" . -}}
{{- include "common.guards" . -}}
{{- include "gateway.guards.discovery" . -}}
{{- include "gateway.guards.routes" . -}}
{{- include "gateway.guards.balancing" . -}}
{{- include "gateway.guards.timeouts" . -}}
{{- include "gateway.guards.ports" . -}}
{{- include "gateway.guards.service" . -}}
{{- include "gateway.guards.account" . -}}
{{- include "gateway.guards.shutdown" . -}}
{{- include "gateway.guards.agent" . -}}
{{- include "gateway.guards.listener" . -}}
{{- include "gateway.guards.tls" . -}}
{{- include "gateway.guards.mtls" . -}}
{{- include "gateway.guards.jwt" . -}}
{{- include "gateway.guards.rateLimit" . -}}
{{- include "gateway.guards.access" . -}}
{{- include "gateway.guards.protocols" . -}}
{{- include "gateway.guards.overload" . -}}
{{- include "gateway.guards.tracing" . -}}
{{- include "gateway.guards.workers" . -}}
{{- end -}}

{{/* 0.2.0 could also render objects for Envoy Gateway. */}}
{{- define "gateway.guards.mode" -}}
{{- if or (ne (.Values.mode | default "envoy") "envoy") (hasKey .Values "gatewayAPI") -}}
{{- fail "mode gatewayAPI and its settings in gatewayAPI are of 0.2.0, but this chart always runs Envoy itself: remove both keys. For Envoy Gateway or another controller, install charts/service alone, as gateway/gateway-api.md shows" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.discovery" -}}
{{- if and (eq .Values.upstream.discovery "static") (not .Values.upstream.endpoints) (not .Values.routes) -}}
{{- fail "upstream.discovery is static but upstream.endpoints is empty: list the address, port and adminPort of each replica" -}}
{{- end -}}
{{- if and (ne .Values.upstream.discovery "static") .Values.upstream.endpoints -}}
{{- fail (printf "upstream.endpoints is set but upstream.discovery is %s: set upstream.discovery to static, or remove the endpoints" .Values.upstream.discovery) -}}
{{- end -}}
{{- end -}}

{{/* Routes: each route by itself, the other values that it needs, and contradictions between routes. */}}
{{- define "gateway.guards.routes" -}}
{{- include "gateway.guards.cors" (list "cors" .Values.cors list) -}}
{{- include "gateway.guards.routeObjects" . -}}
{{- if include "gateway.routed" . -}}
{{- include "gateway.guards.routes.upstream" . -}}
{{- end -}}
{{- if .Values.routes -}}
{{- $names := list -}}
{{- range $route := .Values.routes -}}
{{- if has .name $names -}}
{{- fail (printf "two routes have the name %s: rename one of them" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- include "gateway.guards.route.match" . -}}
{{- include "gateway.guards.route.target" . -}}
{{- include "gateway.guards.route.policy" (list $ .) -}}
{{- include "gateway.guards.cors" (list (printf "cors of the route %s" .name) (.cors | default dict) .methods) -}}
{{- end -}}
{{- range include "gateway.services" . | fromJson -}}
{{- include "gateway.guards.routes.service" (list $ .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.routeObjects" -}}
{{- with .Values.routeObjects -}}
{{- if and .enabled (ne (include "gateway.discovery" $) "eds") -}}
{{- fail (printf "routeObjects.enabled is true but replicas are found by %s: the agent that reads the objects needs upstream.discovery eds and no upstream.dns.hostname" (include "gateway.discovery" $)) -}}
{{- end -}}
{{- if and (eq .allowedNamespaces "Selector") (not .namespaceLabels) -}}
{{- fail "routeObjects.allowedNamespaces is Selector but routeObjects.namespaceLabels is empty: set the labels of the namespaces, or allowedNamespaces to Same or All" -}}
{{- end -}}
{{- if and .namespaceLabels (ne .allowedNamespaces "Selector") -}}
{{- fail (printf "routeObjects.namespaceLabels is set but routeObjects.allowedNamespaces is %s: set it to Selector, or remove the labels" .allowedNamespaces) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Upstream values that name the only service if there are no routes. */}}
{{- define "gateway.guards.routes.upstream" -}}
{{- with .Values.upstream -}}
{{- $named := dict "eds.service" .eds.service "identity" .identity "dns.hostname" .dns.hostname "endpoints" .endpoints -}}
{{- $_ := merge $named (dict "eds.port" (ne (toString .eds.port) "http" | ternary .eds.port "") "eds.healthPort" (ne (toString .eds.healthPort) "admin" | ternary .eds.healthPort "")) -}}
{{- range $key, $value := $named -}}
{{- if $value -}}
{{- fail (printf "upstream.%s is set, but %s name the services: remove upstream.%s, or remove routes" $key (ternary "routes" "objects (routeObjects.enabled)" (gt (len $.Values.routes) 0)) $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes a list of the map, its name in errors, and the keys, of which only one may be set. */}}
{{- define "gateway.guards.one" -}}
{{- $found := list -}}
{{- range slice . 2 -}}
{{- if hasKey (first $) . -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- if gt (len $found) 1 -}}
{{- fail (printf "%s has %s: remove all but one" (index . 1) (join " and " $found)) -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "%s has none of %s: set one of them" (index . 1) (slice . 2 | join ", ")) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.route.match" -}}
{{- $route := . -}}
{{- if hasKey . "path" -}}
{{- include "gateway.guards.one" (list .path (printf "path of the route %s" .name) "exact" "prefix" "regex") -}}
{{- end -}}
{{- range .headers -}}
{{- include "gateway.guards.one" (list . (printf "header %s of the route %s" .name $route.name) "exact" "regex" "present") -}}
{{- end -}}
{{- with (.rewrite | default dict).path -}}
{{- if ($route.path | default dict).regex -}}
{{- fail (printf "route %s has rewrite.path (%s) and path.regex (%s), which matches no part that could be replaced: use path.prefix or path.exact, or remove rewrite.path" $route.name . $route.path.regex) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.route.target" -}}
{{- include "gateway.guards.one" (list . (printf "route %s" .name) "service" "services") -}}
{{- $sum := 0 -}}
{{- range .services -}}
{{- $sum = hasKey . "weight" | ternary (int .weight) 1 | add $sum -}}
{{- end -}}
{{- if and .services (not $sum) -}}
{{- fail (printf "services of the route %s all have weight 0, so no request could go anywhere: give one of them a weight" .name) -}}
{{- end -}}
{{- end -}}

{{/* Takes the root context and a route. */}}
{{- define "gateway.guards.route.policy" -}}
{{- $root := first . -}}
{{- $route := last . -}}
{{- $times := include "gateway.route.times" . | fromJson -}}
{{- $reply := int64 $times.timeout -}}
{{- if and $route.timeout $reply (ge (include "common.milliseconds" (list $root "upstream.connectTimeout") | int64) $reply) -}}
{{- fail (printf "upstream.connectTimeout (%v) must be shorter than timeout of the route %s (%v), which covers all attempts" $root.Values.upstream.connectTimeout $route.name $route.timeout) -}}
{{- end -}}
{{- with $root.Values.listener.timeouts.total -}}
{{- $total := include "common.milliseconds" (list $root "listener.timeouts.total") | int64 -}}
{{- if and $total (lt $total $reply) -}}
{{- fail (printf "listener.timeouts.total (%v) is shorter than timeout of the route %s (%v), which it includes: increase it, or leave it empty for no limit" . $route.name $route.timeout) -}}
{{- end -}}
{{- end -}}
{{- if and $route.jwt (not $root.Values.authentication.jwt.enabled) -}}
{{- fail (printf "jwt of the route %s is true but authentication.jwt.enabled is not: enable it, or remove jwt" $route.name) -}}
{{- end -}}
{{- $login := $root.Values.authentication.oidc -}}
{{- if and $route.requireClaims (not $route.jwt) (not (and $login.enabled (hasKey $route "oidc" | ternary $route.oidc $login.everywhere))) -}}
{{- fail (printf "requireClaims of the route %s is set but neither its jwt nor its oidc is true: requests without a token have no claims. Set one of them to true, or remove requireClaims" $route.name) -}}
{{- end -}}
{{- with $route.rateLimit -}}
{{- $interval := include "common.duration" (list (.interval | default "1s") (printf "rateLimit.interval of the route %s" $route.name)) | int64 -}}
{{- if lt $interval 50 -}}
{{- fail (printf "rateLimit.interval of the route %s is %s, but Envoy refills buckets at most every 50ms: set it to 50ms or more" $route.name .interval) -}}
{{- end -}}
{{- if and .burst (lt (int .burst) (int .requests)) -}}
{{- fail (printf "rateLimit of the route %s has burst %d and requests %d, so requests could never be reached: increase burst" $route.name (int .burst) (int .requests)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes the name of a policy, the policy, and the methods of its route. */}}
{{- define "gateway.guards.cors" -}}
{{- $policy := index . 1 -}}
{{- $methods := last . -}}
{{- if and $policy.credentials (has "*" ($policy.origins | default list)) -}}
{{- fail (printf "%s has credentials and the origin *: any website could read what a user may see. List the origins, or remove credentials" (first .)) -}}
{{- end -}}
{{- if and $policy.origins $methods (not (has "OPTIONS" $methods)) -}}
{{- fail (printf "%s never sees a preflight request: add OPTIONS to methods of the route" (first .)) -}}
{{- end -}}
{{- end -}}

{{/* The settings of a service from all routes. Takes the root context and the service. */}}
{{- define "gateway.guards.routes.service" -}}
{{- $root := first . -}}
{{- $discovery := include "gateway.discovery" $root -}}
{{- with last . -}}
{{- $name := include "gateway.service.name" . -}}
{{- if and (eq $discovery "static") (not .endpoints) -}}
{{- fail (printf "upstream.discovery is static but the service %s (route %s) has no endpoints: list the address, port and adminPort of each replica" $name .from.cluster) -}}
{{- end -}}
{{- if and (ne $discovery "static") .endpoints -}}
{{- fail (printf "the service %s (route %s) has endpoints but upstream.discovery is %s: set it to static, or remove the endpoints" $name .from.endpoints $root.Values.upstream.discovery) -}}
{{- end -}}
{{- if and (eq $discovery "static") .health.port -}}
{{- fail (printf "health.port of the route %s is set, but upstream.discovery is static: the adminPort of each of the endpoints is the port of health checks. Remove health.port" .from.health) -}}
{{- end -}}
{{- if eq $discovery "dns" -}}
{{- range $key, $value := dict "port" .port "health.port" .healthPort -}}
{{- if not (regexMatch "^[0-9]+$" $value) -}}
{{- fail (printf "%s of the service %s is %s, but DNS has no names of ports: give its number" $key $name $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $kinds := pick .health "path" "grpc" "tcp" | keys | sortAlpha -}}
{{- if gt (len $kinds) 1 -}}
{{- fail (printf "health of the route %s has %s: remove all but one" .from.health (join " and " $kinds)) -}}
{{- end -}}
{{- if and .health.grpc (eq .protocol "http1") -}}
{{- fail (printf "health.grpc of the route %s is true, but protocol of the service %s is http1: gRPC needs protocol grpc, http2 or auto" .from.health $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Envoy treats 0s as no timeout. */}}
{{- define "gateway.guards.timeouts" -}}
{{- $idle := include "common.milliseconds" (list . "upstream.idleTimeout") | int64 -}}
{{- if .Values.upstream.serverIdleTimeout -}}
{{- $server := include "common.milliseconds" (list . "upstream.serverIdleTimeout") | int64 -}}
{{- if or (not $idle) (ge $idle $server) -}}
{{- fail (printf "upstream.idleTimeout (%v) must be shorter than the server's timeouts.idle (%v, upstream.serverIdleTimeout): otherwise the server may close a connection while the gateway sends a request on it" .Values.upstream.idleTimeout .Values.upstream.serverIdleTimeout) -}}
{{- end -}}
{{- end -}}
{{- $connect := include "common.milliseconds" (list . "upstream.connectTimeout") | int64 -}}
{{- $reply := include "common.milliseconds" (list . "upstream.timeout") | int64 -}}
{{- if and $reply (ge $connect $reply) -}}
{{- fail (printf "upstream.connectTimeout (%v) must be shorter than upstream.timeout (%v), which includes it" .Values.upstream.connectTimeout .Values.upstream.timeout) -}}
{{- end -}}
{{- end -}}

{{/* A listener on loopback belongs to a local process, for which pod limits and sysctls have no meaning. */}}
{{- define "gateway.guards.ports" -}}
{{- $ports := list . "listener.port" "stats.port" "admin.port" -}}
{{- if .Values.tls.enabled -}}
{{- $ports = append $ports "tls.port" -}}
{{- end -}}
{{- if eq (include "gateway.discovery" .) "eds" -}}
{{- $ports = append $ports "agent.port" -}}
{{- end -}}
{{- if .Values.listener.internal.enabled -}}
{{- $ports = append $ports "listener.internal.port" -}}
{{- end -}}
{{- include "common.guards.samePorts" $ports -}}
{{- /* HTTP/3 uses UDP, whose port may have the same number as a TCP port. */ -}}
{{- if .Values.http3.enabled -}}
{{- $ports = append $ports "http3.port" -}}
{{- end -}}
{{- if not (has .Values.listener.address (list "127.0.0.1" "::1")) -}}
{{- include "common.guards.lowPorts" $ports -}}
{{- include "gateway.guards.portRange" $ports -}}
{{- end -}}
{{- end -}}

{{/* The kernel assigns the ports in this range to connections that Envoy opens. A listener whose port is taken does not
start. */}}
{{- define "gateway.guards.portRange" -}}
{{- with get (first .).Values.sysctls "net.ipv4.ip_local_port_range" -}}
{{- $range := splitList " " . -}}
{{- range $name := rest $ -}}
{{- $port := list (first $) $name | include "common.port" | int -}}
{{- if and (ge $port (index $range 0 | int)) (le $port (index $range 1 | int)) -}}
{{- fail (printf "%s (%d) is within net.ipv4.ip_local_port_range of sysctls (%s), which the kernel uses for connections to replicas: choose a port outside of it, or change the range" $name $port (join " " $range)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The default account is shared by all pods of the namespace. */}}
{{- define "gateway.guards.account" -}}
{{- if and (eq (include "gateway.discovery" .) "eds") .Values.agent.rbac (eq (include "common.serviceAccountName" .) "default") -}}
{{- fail "the service account is default, so all pods of the namespace would get the agent's Role. Set serviceAccount.name, or set agent.rbac to false and grant the permissions yourself, or set upstream.discovery to dns" -}}
{{- end -}}
{{- if and .Values.upstream.eds.service (ne (include "gateway.discovery" .) "eds") -}}
{{- fail (printf "upstream.eds.service is %s but replicas are found by %s: remove upstream.eds.service, or %s" .Values.upstream.eds.service (include "gateway.discovery" .) (ternary "upstream.dns.hostname" "set upstream.discovery to eds" (ne .Values.upstream.dns.hostname ""))) -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.service" -}}
{{- if and .Values.service.httpsNodePort (or (eq .Values.service.type "ClusterIP") (not .Values.tls.enabled)) -}}
{{- fail (printf "service.httpsNodePort is %v, which requires tls.enabled and service.type NodePort or LoadBalancer: set both, or remove the port" .Values.service.httpsNodePort) -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail (printf "service.nodePort is %v but service.type is ClusterIP: set service.type to NodePort or LoadBalancer, or remove the port" .Values.service.nodePort) -}}
{{- end -}}
{{- end -}}

{{/*
Settings of a policy that is not selected would have no effect, without any warning.
*/}}
{{- define "gateway.guards.balancing" -}}
{{- $policies := include "gateway.policies" . | fromJsonArray -}}
{{- include "gateway.guards.balancing.unused" . -}}
{{- include "gateway.guards.balancing.ringHash" . -}}
{{- if has "load-aware" $policies -}}
{{- if lt (include "common.milliseconds" (list . "upstream.balancing.loadAware.update") | int64) 100 -}}
{{- fail (printf "upstream.balancing.loadAware.update is %v, but Envoy updates weights at most every 100ms: set it to 100ms or more" .Values.upstream.balancing.loadAware.update) -}}
{{- end -}}
{{- end -}}
{{- if has "ring-hash" $policies -}}
{{- if include "common.milliseconds" (list . "upstream.balancing.slowStart.window") | int64 -}}
{{- fail (printf "upstream.balancing.slowStart.window is %v, but the policy ring-hash has no slow start: set it to 0s, or change upstream.balancing.policy" .Values.upstream.balancing.slowStart.window) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Only for values without a default can the chart detect that they are set. */}}
{{- define "gateway.guards.balancing.unused" -}}
{{- $balancing := .Values.upstream.balancing -}}
{{- $policies := include "gateway.policies" . | fromJsonArray -}}
{{- $owners := dict
  "choices" (list "least-request-p2c" $balancing.choices)
  "loadAware.metrics" (list "load-aware" $balancing.loadAware.metrics)
  "ringHash.key" (list "ring-hash" $balancing.ringHash.key)
  "ringHash.name" (list "ring-hash" $balancing.ringHash.name)
  "ringHash.cookieLife" (list "ring-hash" $balancing.ringHash.cookieLife)
  "ringHash.boundPercent" (list "ring-hash" $balancing.ringHash.boundPercent) -}}
{{- range $key, $pair := $owners -}}
{{- if and (last $pair) (not (has (first $pair) $policies)) -}}
{{- fail (printf "upstream.balancing.%s is set, but only the policy %s uses it and upstream.balancing.policy is %s: remove it, or change the policy" $key (first $pair) (join ", " $policies)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.balancing.ringHash" -}}
{{- if has "ring-hash" (include "gateway.policies" . | fromJsonArray) -}}
{{- with .Values.upstream.balancing.ringHash -}}
{{- if not .key -}}
{{- fail "the balancing policy is ring-hash but upstream.balancing.ringHash.key is empty: set it to header, cookie, query or source-address" -}}
{{- end -}}
{{- if and (ne .key "source-address") (not .name) -}}
{{- fail (printf "upstream.balancing.ringHash.key is %s but upstream.balancing.ringHash.name is empty: set it to the name of the %s" .key .key) -}}
{{- end -}}
{{- if and (eq .key "source-address") .name -}}
{{- fail (printf "upstream.balancing.ringHash.name is %s, but a source address has no name: remove it" .name) -}}
{{- end -}}
{{- if and .cookieLife (ne .key "cookie") -}}
{{- fail (printf "upstream.balancing.ringHash.cookieLife is %s but the key is %s: remove it, or set upstream.balancing.ringHash.key to cookie" .cookieLife .key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Checks of client-facing values that the schema cannot express.
*/}}
{{- define "gateway.guards.listener" -}}
{{- with .Values.listener -}}
{{- if ge (mul 2 (int .connections)) (int .fileLimit) -}}
{{- fail (printf "listener.connections (%d) must be below half of listener.fileLimit (%d): each connection may need a second file descriptor for a replica. Reduce it, or increase listener.fileLimit if the container runtime grants more" (int .connections) (int .fileLimit)) -}}
{{- end -}}
{{- end -}}
{{- $total := include "gateway.envoy.total" . | int64 -}}
{{- $reply := include "common.milliseconds" (list . "upstream.timeout") | int64 -}}
{{- if and $total (lt $total $reply) -}}
{{- fail (printf "listener.timeouts.total (%v) is shorter than upstream.timeout (%v), which would never apply: increase it, or leave it empty for no limit" .Values.listener.timeouts.total .Values.upstream.timeout) -}}
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
{{- if and $jwt.enabled (not $jwt.secret) (ne (len (pick $jwt.files "token" "sds" | values | compact)) 2) -}}
{{- fail "authentication.jwt.enabled is true but there is no token for replicas: set authentication.jwt.secret. For a local process, set token and sds of authentication.jwt.files" -}}
{{- end -}}
{{- if and $jwt.enabled (not $jwt.secret) (not $jwt.files.jwks) (not $jwt.url) -}}
{{- fail "authentication.jwt.enabled is true but there are no keys: set authentication.jwt.secret or authentication.jwt.url. For a local process, set jwks of authentication.jwt.files" -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.overload" -}}
{{- with .Values.overload.reduceTimeouts -}}
{{- if and .from (ge (int .from) (int .to)) -}}
{{- fail (printf "overload.reduceTimeouts.from (%d) must be below overload.reduceTimeouts.to (%d)" (int .from) (int .to)) -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := .Values.overload.resetStreams -}}
{{- if ge (int $value) 100 -}}
{{- fail (printf "overload.resetStreams.%s (%d) must be below 100" $key (int $value)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.tracing" -}}
{{- if and .Values.tracing.enabled (not .Values.tracing.host) -}}
{{- fail "tracing.enabled is true but tracing.host is empty: set it to the name or address of an OpenTelemetry collector" -}}
{{- end -}}
{{- end -}}
