//! Settings of the kubelet, the container runtime and the kernel command line.

use super::{Kind, Knob, Place, Rule, all};

const KUBELET: &str = "kubernetes.io: Control CPU Management Policies on the Node";

const FIELD: Knob = Knob {
    name: "",
    kind: Kind::Names,
    rule: Rule::Shown,
    place: Place::Kubelet(""),
    values: all(""),
    summary: "",
    reason: "",
    source: KUBELET,
    risk: "",
};

pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "kubelet.cpuManagerPolicy",
        kind: Kind::Word(&["none", "static"]),
        place: Place::Kubelet("cpuManagerPolicy"),
        values: all("static"),
        summary: "Whether containers can have exclusive CPUs",
        reason: "A lane has an exclusive CPU only if the kubelet assigns whole CPUs to pods that \
                 request them",
        risk: "The node must be drained and the kubelet's state file deleted",
        ..FIELD
    },
    Knob {
        name: "kubelet.cpuManagerPolicyOptions",
        place: Place::Kubelet("cpuManagerPolicyOptions"),
        values: all("full-pcpus-only=true,strict-cpu-reservation=true,\
                     prefer-align-cpus-by-uncorecache=true"),
        summary: "How the static policy chooses CPUs",
        reason: "Whole cores, no reserved CPUs for pods, CPUs that share a cache. Kubernetes 1.34 \
                 or later: on 1.33 omit prefer-align-cpus-by-uncorecache, which is alpha there \
                 and prevents the start of the kubelet",
        risk: "Pods that request half a core are rejected",
        ..FIELD
    },
    Knob {
        name: "kubelet.reservedSystemCPUs",
        kind: Kind::Cpus,
        place: Place::Kubelet("reservedSystemCPUs"),
        values: all("auto"),
        summary: "CPUs that are never exclusive",
        reason: "auto: those for interrupts. The static policy needs at least one",
        source: "kubernetes.io: Reserve Compute Resources for System Daemons",
        risk: "Fewer CPUs for lanes",
        ..FIELD
    },
    Knob {
        name: "kubelet.topologyManagerPolicy",
        kind: Kind::Word(&["none", "best-effort", "restricted", "single-numa-node"]),
        place: Place::Kubelet("topologyManagerPolicy"),
        values: all("best-effort"),
        summary: "Whether CPUs, memory and devices of a pod are on the same NUMA node",
        reason: "Prefers it, but rejects no pod, because the scheduler is not aware of NUMA nodes",
        source: "kubernetes.io: Control Topology Management Policies on a Node",
        risk: "restricted and single-numa-node fail pods permanently",
        ..FIELD
    },
    Knob {
        name: "kubelet.allowedUnsafeSysctls",
        place: Place::Kubelet("allowedUnsafeSysctls"),
        values: all("auto"),
        summary: "Unsafe sysctls that pods of this node may set",
        reason: "auto: those of `generate service --unsafe` and `generate gateway --unsafe`; \
                 otherwise such pods do not start here. `generate kubelet` includes them only \
                 with `--unsafe`",
        source: "kubernetes.io: Using sysctls in a Kubernetes Cluster",
        risk: "All pods of the node may set them, so taint it. Replaces an existing list",
        ..FIELD
    },
    Knob {
        name: "containerd.nofile",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        place: Place::Containerd,
        values: ["100000", "262144", "2097152"],
        summary: "Maximum open files of a container: the hard limit of containerd",
        reason: "One per connection, in the gateway two; Kubernetes has no field for it, and the \
                 server raises its soft limit to the hard one",
        source: "systemd.exec(5), LimitNOFILE",
        risk: "Old programs that close all files up to their limit become slow",
        ..FIELD
    },
    Knob {
        name: "boot.thash_entries",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        place: Place::Boot("net.ipv4.tcp_ehash_entries"),
        values: ["", "", "1048576"],
        summary: "Size of the connection hash table",
        reason: "One entry per connection; the kernel's default is at most 524,288",
        source: "Documentation/admin-guide/kernel-parameters.txt",
        risk: "8 bytes each, allocated at boot",
        ..FIELD
    },
];
