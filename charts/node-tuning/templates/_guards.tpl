{{/*
Checks that the schema cannot express. Each error names the value and the fix.
*/}}
{{- define "node-tuning.guards" -}}
{{- include "node-tuning.guards.knobs" . -}}
{{- include "node-tuning.guards.interrupts" . -}}
{{- include "node-tuning.guards.mode" . -}}
{{- include "node-tuning.guards.durations" . -}}
{{- include "node-tuning.guards.deletionCost" . -}}
{{- include "node-tuning.guards.journal" . -}}
{{- include "node-tuning.guards.rollout" . -}}
{{- include "node-tuning.guards.account" . -}}
{{- end -}}

{{/* In each pod, these sysctls start at the kernel's defaults, whatever the node's own values are. */}}
{{- define "node-tuning.guards.knobs" -}}
{{- if and (eq .Values.profile "custom") (not .Values.knobs) -}}
{{- fail "profile is custom but `knobs` is empty: add node settings to `knobs`, or set profile to web-10k, web-100k or web-1m" -}}
{{- end -}}
{{- range $name, $_ := .Values.knobs -}}
{{- if eq $name "net.ipv4.tcp_migrate_req" -}}
{{- fail (printf "`knobs` has %s: leave it off everywhere. On kernels without its fix, a connection that moves to another listener is not accepted there. Replicas drain instead" $name) -}}
{{- end -}}
{{- if has $name (include "node-tuning.podSysctls.safe" . | fromYamlArray) -}}
{{- fail (printf "`knobs` has %s, which is a setting of each pod, not of the node. Set it in sysctls of the charts service and gateway" $name) -}}
{{- end -}}
{{- if has $name (include "node-tuning.podSysctls.unsafe" . | fromYamlArray) -}}
{{- fail (printf "`knobs` has %s, which is a setting of each pod, not of the node. Set it in unsafeSysctls of the charts service and gateway, and allow it in allowedUnsafeSysctls of the kubelets" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* All sysctls that Kubernetes considers safe, including those that the charts do not use. */}}
{{- define "node-tuning.podSysctls.safe" -}}
- net.ipv4.ip_local_port_range
- net.ipv4.ip_local_reserved_ports
- net.ipv4.ip_unprivileged_port_start
- net.ipv4.ping_group_range
- net.ipv4.tcp_fin_timeout
- net.ipv4.tcp_keepalive_intvl
- net.ipv4.tcp_keepalive_probes
- net.ipv4.tcp_keepalive_time
- net.ipv4.tcp_rmem
- net.ipv4.tcp_syncookies
- net.ipv4.tcp_wmem
{{- end -}}

{{- define "node-tuning.podSysctls.unsafe" -}}
- net.core.somaxconn
- net.ipv4.tcp_fastopen
- net.ipv4.tcp_max_syn_backlog
- net.ipv4.tcp_max_tw_buckets
- net.ipv4.tcp_notsent_lowat
- net.ipv4.tcp_slow_start_after_idle
- net.ipv4.tcp_tw_reuse
{{- end -}}

{{- define "node-tuning.guards.interrupts" -}}
{{- if not .Values.housekeeping -}}
{{- range $name := list "irq.affinity" "irqbalance.banned_cpus" -}}
{{- $value := get ($.Values.knobs | default dict) $name | toString -}}
{{- if eq $value "auto" -}}
{{- fail (printf "`knobs` has %s but housekeeping is empty: set housekeeping to the CPUs that the kubelet reserves, such as 0-1" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.guards.mode" -}}
{{- if and .Values.taint.enabled (eq .Values.mode "audit") -}}
{{- fail "taint.enabled is true but mode is audit, which never removes the taint. Set mode to apply, or set taint.enabled to false. Mode restore removes the taint" -}}
{{- end -}}
{{- if has .Values.address (list "127.0.0.1" "::1") -}}
{{- fail (printf "address is %s, which probes, Prometheus and `helm test` cannot reach: leave it empty, or set an address of the node" .Values.address) -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.guards.durations" -}}
{{- $values := .Values -}}
{{- range list (list "interval" $values.interval "5m") (list "deletionCost.interval" $values.deletionCost.interval "1h") -}}
{{- $given := include "common.duration" (list (index . 1) (first .)) | int64 -}}
{{- if or (lt $given 1000) (gt $given (include "common.duration" (list (last .) "") | int64)) -}}
{{- fail (printf "%s is %v: set it to 1s to %s" (first .) (index . 1) (last .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.guards.deletionCost" -}}
{{- if and .Values.deletionCost.enabled (semverCompare "<1.32.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "deletionCost.enabled is true, but this is Kubernetes %s. The policy that restricts the agent needs the node in its token, which is certain from 1.32 on. Set deletionCost.enabled to false" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}

{{/* Changes to irqbalance's file survive a reboot, so its original content must survive one too. */}}
{{- define "node-tuning.guards.journal" -}}
{{- range $folder := list "/dev" "/proc" "/run" "/sys" "/tmp" "/var/run" -}}
{{- if hasPrefix (printf "%s/" $folder) (printf "%s/" $.Values.journal.hostPath) -}}
{{- fail (printf "journal.hostPath is %s, which does not survive a reboot, but some changes do: set it to a folder on a disk, such as /var/lib/corelane/node-tuner" $.Values.journal.hostPath) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "node-tuning.guards.rollout" -}}
{{- if has (toString .Values.rollout.maxUnavailable) (list "0" "0%") -}}
{{- fail "rollout.maxUnavailable is 0, but a node runs only one agent, so none can be replaced: set it to 1" -}}
{{- end -}}
{{- end -}}

{{/* All pods in the namespace share the default account. */}}
{{- define "node-tuning.guards.account" -}}
{{- if and .Values.rbac (eq (include "common.serviceAccountName" .) "default") -}}
{{- fail "the service account is default, so all pods of the namespace would get the agent's ClusterRole. Set serviceAccount.name, or set rbac to false and grant the permissions yourself" -}}
{{- end -}}
{{- end -}}
