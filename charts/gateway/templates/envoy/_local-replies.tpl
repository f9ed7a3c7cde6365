{{/*
Replies that Envoy itself writes, in the form of the server's own errors (RFC 9457): the type and
title follow from the status. Why Envoy refused is in the access log, not in the reply. What tells
them from a replica's reply: they have no corelane-replica header.
*/}}
{{- define "gateway.envoy.localReplies" -}}
{{- $phrases := list
  (list 400 "Bad Request")
  (list 401 "Unauthorized")
  (list 403 "Forbidden")
  (list 404 "Not Found")
  (list 405 "Method Not Allowed")
  (list 408 "Request Timeout")
  (list 413 "Payload Too Large")
  (list 426 "Upgrade Required")
  (list 429 "Too Many Requests")
  (list 431 "Request Header Fields Too Large")
  (list 500 "Internal Server Error")
  (list 501 "Not Implemented")
  (list 502 "Bad Gateway")
  (list 503 "Service Unavailable")
  (list 504 "Gateway Timeout")
-}}
local_reply_config: &local_replies
  mappers:
  # The filter's schema demands a runtime key; nothing sets it.
  {{- range $phrases }}
  {{- $status := index . 0 }}
  {{- $phrase := index . 1 }}
  - filter: {status_code_filter: {comparison: {op: EQ, value: {default_value: {{ $status }}, runtime_key: unset}}}}
    body_format_override:
      content_type: application/problem+json
      json_format:
        type: urn:corelane:problem:{{ $phrase | lower | replace " " "-" }}
        title: {{ $phrase }}
        status: {{ $status }}
  {{- end }}
  body_format:
    content_type: application/problem+json
    json_format: {type: "about:blank", title: Error, status: "%RESPONSE_CODE%"}
{{- end -}}
