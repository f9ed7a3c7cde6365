{{/*
Where requests may go: the services and routes of the values in one form, as JSON, for Envoy and for the agent. Without
routes, there is one service, the upstream, and one route to it.
*/}}

{{/* Not empty if routes name the services; otherwise all requests go to the upstream. */}}
{{- define "gateway.routed" -}}
{{- if or .Values.routes .Values.routeObjects.enabled -}}
yes
{{- end -}}
{{- end -}}

{{/* Services by the name of their cluster. The settings of a service from several routes are merged here, so
contradictions are also rejected here. */}}
{{- define "gateway.services" -}}
{{- $services := dict -}}
{{- if not (include "gateway.routed" .) -}}
{{- $service := dict "cluster" "server" "namespace" .Release.Namespace "name" (include "gateway.agent.service" .) -}}
{{- $ports := ternary (list .Values.upstream.dns.port .Values.upstream.dns.adminPort) (list .Values.upstream.eds.port .Values.upstream.eds.healthPort) (eq (include "gateway.discovery" .) "dns") -}}
{{- $service = merge $service (dict "port" (first $ports | toString) "healthPort" (last $ports | toString)) -}}
{{- $service = merge $service (dict "host" (include "gateway.envoy.upstreamHost" .) "endpoints" .Values.upstream.endpoints) -}}
{{- $_ := set $services "server" $service -}}
{{- end -}}
{{- range $route := .Values.routes -}}
{{- range $named := include "gateway.route.services" (list $ $route) | fromJsonArray -}}
{{- $service := get $services $named.cluster | default (pick $named "cluster" "namespace" "name" "port") -}}
{{- range $key := list "namespace" "name" "port" -}}
{{- if ne (get $service $key) (get $named $key) -}}
{{- fail (printf "routes %s and %s name the services %s and %s, whose clusters would both be called %s: rename one of the services or its port" (get $service.from "cluster") $route.name (include "gateway.service.name" $service) (include "gateway.service.name" $named) $named.cluster) -}}
{{- end -}}
{{- end -}}
{{- $from := $service.from | default (dict "cluster" $route.name) -}}
{{- $said := merge (pick $route "protocol" "balancing" "health") (pick $named "endpoints" "mtls" "identity") -}}
{{- range $key, $value := $said -}}
{{- if and (hasKey $from $key) (ne (get $service $key | toJson) (toJson $value)) -}}
{{- fail (printf "routes %s and %s lead to the same service, %s, but %s is %s in %s and %s in %s: make them equal, or remove one" (get $from $key) $route.name (include "gateway.service.name" $service) $key (get $service $key | toJson) (get $from $key) (toJson $value) $route.name) -}}
{{- end -}}
{{- $_ := set $from $key $route.name -}}
{{- $_ := set $service $key $value -}}
{{- end -}}
{{- $_ := set $service "from" $from -}}
{{- $_ := set $services $named.cluster $service -}}
{{- end -}}
{{- end -}}
{{- range $service := $services -}}
{{- include "gateway.service.defaults" (list $ $service) -}}
{{- end -}}
{{- toJson $services -}}
{{- end -}}

{{/* Fills in settings that no route sets. Takes a list of the root context and a service, which it changes. */}}
{{- define "gateway.service.defaults" -}}
{{- $root := first . -}}
{{- $service := last . -}}
{{- $protocol := $service.protocol | default $root.Values.upstream.protocol -}}
{{- $grpc := or $root.Values.upstream.health.grpc (and $root.Values.routes (eq $protocol "grpc")) -}}
{{- $health := $service.health | default (ternary (dict "grpc" true) dict (not (not $grpc))) -}}
{{- $own := or (hasKey $health "grpc") (hasKey $health "tcp") -}}
{{- $named := eq (include "gateway.discovery" $root) "dns" -}}
{{- $checked := $service.healthPort | default (ternary $service.port (ternary (toString $root.Values.upstream.dns.adminPort) "" $named) $own) -}}
{{- $host := printf "%s.%s.svc.%s." $service.name $service.namespace $root.Values.upstream.dns.clusterDomain -}}
{{- $_ := set $service "protocol" $protocol -}}
{{- $_ := set $service "health" $health -}}
{{- $_ := set $service "healthPort" (hasKey $health "port" | ternary (toString $health.port) $checked) -}}
{{- $_ := set $service "balancing" ($service.balancing | default $root.Values.upstream.balancing.policy) -}}
{{- $_ := set $service "host" ($service.host | default $host) -}}
{{- $_ := set $service "identity" (include "gateway.service.identity" .) -}}
{{- end -}}

{{/* The identity that the service's replicas must present. Empty without mutual TLS. */}}
{{- define "gateway.service.identity" -}}
{{- $root := first . -}}
{{- $service := last . -}}
{{- if and (include "common.mtls" $root) (not (has (get $service "mtls" | toString) (list "off" "false"))) -}}
{{- $service.identity | default $root.Values.upstream.identity | default (include "common.mtls.identity" (list $root $service.namespace $service.name)) -}}
{{- end -}}
{{- end -}}

{{/* The service's name in errors and notes. */}}
{{- define "gateway.service.name" -}}
{{- printf "%s/%s:%s" .namespace .name .port -}}
{{- end -}}

{{/* The service in the form that the agent expects. */}}
{{- define "gateway.service.watched" -}}
{{- include "gateway.service.name" . }}{{ with .healthPort }}:{{ . }}{{ end -}}
{{- end -}}

{{/* The services that a route names: first the weighted services, then the mirror. Takes a list of the root
context and a route. */}}
{{- define "gateway.route.services" -}}
{{- $root := first . -}}
{{- $route := last . -}}
{{- $found := list -}}
{{- $port := ternary $root.Values.upstream.dns.port "http" (eq (include "gateway.discovery" $root) "dns") -}}
{{- range concat (compact (list $route.service)) ($route.services | default list) (compact (list $route.mirror)) -}}
{{- $service := dict "name" .name "namespace" (.namespace | default $root.Release.Namespace) "port" (.port | default $port | toString) -}}
{{- $cluster := printf "%s-%s-%s" $service.namespace $service.name $service.port -}}
{{- if gt (len $cluster) 63 -}}
{{- fail (printf "route %s leads to the service %s, whose cluster %s has a name of %d characters: Prometheus and the agent take at most 63. Use a Service with a shorter name or port" $route.name (include "gateway.service.name" $service) $cluster (len $cluster)) -}}
{{- end -}}
{{- $found = append $found (merge $service (dict "cluster" $cluster "weight" (hasKey . "weight" | ternary .weight 1)) (pick . "endpoints" "mtls" "identity")) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The routes in order, or one unnamed route to the upstream if there are none. Each route contains its services, its
timeouts in milliseconds, and its rules, because the method determines which failures may be retried. */}}
{{- define "gateway.routes" -}}
{{- $routes := list -}}
{{- range $route := ternary .Values.routes (list (dict "name" "")) (ne (include "gateway.routed" .) "") -}}
{{- $all := ternary (include "gateway.route.services" (list $ $route)) "[{\"cluster\":\"server\"}]" (ne $route.name "") | fromJsonArray -}}
{{- $full := dict "services" (ternary (initial $all) $all (hasKey $route "mirror")) -}}
{{- if $route.mirror -}}
{{- $_ := set $full "mirror" (merge (dict "cluster" (last $all).cluster) $route.mirror) -}}
{{- end -}}
{{- $_ := set $full "path" ($route.path | default (dict "prefix" "/")) -}}
{{- $_ := set $full "retries" (hasKey $route "retries" | ternary $route.retries $.Values.upstream.retries.attempts) -}}
{{- $_ := set $full "milliseconds" (include "gateway.route.times" (list $ $route) | fromJson) -}}
{{- /* With HTTP/2 to the replicas, not every client could open a WebSocket (gateway.guards.protocols). */}}
{{- $usual := ternary list $.Values.upstream.upgrade (has ($route.protocol | default "") (list "http2" "grpc")) -}}
{{- $_ := set $full "upgrade" (hasKey $route "upgrade" | ternary $route.upgrade $usual) -}}
{{- $_ := set $full "rules" (include "gateway.route.rules" (list $ $route $full) | fromJsonArray) -}}
{{- $routes = append $routes (merge $full (omit $route "mirror" "services" "path" "upgrade")) -}}
{{- end -}}
{{- toJson $routes -}}
{{- end -}}

{{/* The timeouts of a route in milliseconds: for a whole reply, without a byte, and without a byte after an
upgrade. */}}
{{- define "gateway.route.times" -}}
{{- $root := first . -}}
{{- $route := last . -}}
{{- $times := dict -}}
{{- range $key := list "timeout" "idleTimeout" -}}
{{- $_ := set $times $key (include "common.duration" (list (get $route $key | default "0s") (printf "%s of the route %s" $key $route.name)) | int64) -}}
{{- end -}}
{{- $_ := set $times "upgraded" $times.idleTimeout -}}
{{- if not $route.idleTimeout -}}
{{- $_ := set $times "idleTimeout" (include "common.milliseconds" (list $root "upstream.timeout") | int64) -}}
{{- $_ := set $times "upgraded" (include "common.milliseconds" (list $root "listener.timeouts.upgraded") | int64) -}}
{{- end -}}
{{- toJson $times -}}
{{- end -}}

{{/* Some methods can safely run twice, so they are retried after any failure before the reply begins. Other methods and
upgrades are retried only if no handler was started. Takes the root context, the route, and what it has by default. */}}
{{- define "gateway.route.rules" -}}
{{- $again := (first .).Values.upstream.retries.idempotentMethods -}}
{{- $route := index . 1 -}}
{{- $methods := $route.methods | default list -}}
{{- $full := last . -}}
{{- $rules := list -}}
{{- if and $route.name (not $full.retries) -}}
{{- $rules = list (dict "methods" $methods) -}}
{{- else -}}
{{- $safe := list -}}
{{- $rest := list -}}
{{- range $method := $methods | default $again -}}
{{- if has $method $again -}}
{{- $safe = append $safe $method -}}
{{- else -}}
{{- $rest = append $rest $method -}}
{{- end -}}
{{- end -}}
{{- with $safe -}}
{{- $rules = append $rules (dict "methods" . "again" true) -}}
{{- end -}}
{{- if or (not $methods) $rest -}}
{{- $rules = append $rules (dict "methods" $rest "once" true) -}}
{{- end -}}
{{- end -}}
{{- with $full.upgrade -}}
{{- $rules = prepend $rules (dict "methods" $methods "upgrade" (printf "(?i)%s" (join "|" .)) "once" true) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/*
Virtual hosts: Envoy chooses the most specific name of a host before it looks at any route. Each host name therefore
lists every route that matches it, in order, and the first match wins as in a single list.
*/}}
{{- define "gateway.hosts" -}}
{{- $hosts := list -}}
{{- range .Values.routes -}}
{{- $hosts = concat $hosts (.hosts | default list) -}}
{{- end -}}
{{- $groups := dict -}}
{{- $order := list -}}
{{- range $host := append (uniq $hosts) "*" -}}
{{- $numbers := list -}}
{{- range $number, $route := ternary $.Values.routes (list dict) (ne (include "gateway.routed" $) "") -}}
{{- $takes := not $route.hosts -}}
{{- range $route.hosts -}}
{{- $takes = or $takes (eq . $host) (and (hasPrefix "*." .) (hasSuffix (trimPrefix "*" .) $host)) -}}
{{- end -}}
{{- if $takes -}}
{{- $numbers = append $numbers $number -}}
{{- end -}}
{{- end -}}
{{- $key := join "," $numbers | default "none" -}}
{{- if not (hasKey $groups $key) -}}
{{- $order = append $order $key -}}
{{- end -}}
{{- $group := get $groups $key | default (dict "domains" list "routes" $numbers) -}}
{{- $_ := set $group "domains" (append $group.domains $host) -}}
{{- $_ := set $groups $key $group -}}
{{- end -}}
{{- $found := list -}}
{{- range $order -}}
{{- $found = append $found (get $groups .) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The balancing policies of all services. */}}
{{- define "gateway.policies" -}}
{{- $found := list -}}
{{- range include "gateway.services" . | fromJson -}}
{{- $found = append $found .balancing -}}
{{- end -}}
{{- uniq $found | toJson -}}
{{- end -}}

{{/* Where the services are. */}}
{{- define "gateway.namespaces" -}}
{{- $found := list -}}
{{- range include "gateway.services" . | fromJson -}}
{{- $found = append $found .namespace -}}
{{- end -}}
{{- uniq $found | sortAlpha | toJson -}}
{{- end -}}

{{/* The longest time limit for a reply among all routes, in milliseconds, or for its first byte if the whole reply has
no limit. 0 if a reply may take forever. The time limits of route objects are unknown, so they count as routes without a
limit. */}}
{{- define "gateway.longestTimeout" -}}
{{- $longest := 0 -}}
{{- $endless := false -}}
{{- range include "gateway.routes" . | fromJsonArray -}}
{{- $reply := .milliseconds.timeout | default .milliseconds.idleTimeout | int64 -}}
{{- $endless = or $endless (not $reply) -}}
{{- $longest = max $longest $reply -}}
{{- end -}}
{{- if .Values.routeObjects.enabled -}}
{{- $longest = max $longest (include "common.milliseconds" (list . "upstream.timeout") | int64) -}}
{{- end -}}
{{- ternary 0 $longest $endless -}}
{{- end -}}

{{/* Not empty if a route accepts upgrades. */}}
{{- define "gateway.upgrades" -}}
{{- range include "gateway.routes" . | fromJsonArray -}}
{{- if .upgrade }}yes{{ end -}}
{{- end -}}
{{- end -}}
