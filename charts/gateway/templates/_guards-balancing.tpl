{{/*
Settings of a policy that is not selected would silently have no effect.
*/}}
{{- define "gateway.guards.balancing" -}}
{{- $policy := .Values.upstream.balancing.policy -}}
{{- include "gateway.guards.balancing.unused" . -}}
{{- include "gateway.guards.balancing.ringHash" . -}}
{{- if eq $policy "load-aware" -}}
{{- if lt (include "common.milliseconds" (list . "upstream.balancing.loadAware.update") | int64) 100 -}}
{{- fail (printf "upstream.balancing.loadAware.update is %v, but Envoy updates weights at most every 100ms: set it to 100ms or more" .Values.upstream.balancing.loadAware.update) -}}
{{- end -}}
{{- end -}}
{{- if eq $policy "ring-hash" -}}
{{- if include "common.milliseconds" (list . "upstream.balancing.slowStart.window") | int64 -}}
{{- fail (printf "upstream.balancing.slowStart.window is %v, but the policy ring-hash has no slow start: set it to 0s, or change upstream.balancing.policy" .Values.upstream.balancing.slowStart.window) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Only values without a default can be recognized as set. */}}
{{- define "gateway.guards.balancing.unused" -}}
{{- $balancing := .Values.upstream.balancing -}}
{{- $owners := dict
  "choices" (list "least-request-p2c" $balancing.choices)
  "loadAware.metrics" (list "load-aware" $balancing.loadAware.metrics)
  "ringHash.key" (list "ring-hash" $balancing.ringHash.key)
  "ringHash.name" (list "ring-hash" $balancing.ringHash.name)
  "ringHash.cookieLife" (list "ring-hash" $balancing.ringHash.cookieLife)
  "ringHash.boundPercent" (list "ring-hash" $balancing.ringHash.boundPercent) -}}
{{- range $key, $pair := $owners -}}
{{- if and (last $pair) (ne $balancing.policy (first $pair)) -}}
{{- fail (printf "upstream.balancing.%s is set, but only the policy %s uses it and upstream.balancing.policy is %s: remove it, or change the policy" $key (first $pair) $balancing.policy) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gateway.guards.balancing.ringHash" -}}
{{- if eq .Values.upstream.balancing.policy "ring-hash" -}}
{{- with .Values.upstream.balancing.ringHash -}}
{{- if not .key -}}
{{- fail "upstream.balancing.policy is ring-hash but upstream.balancing.ringHash.key is empty: set it to header, cookie, query or source-address" -}}
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
