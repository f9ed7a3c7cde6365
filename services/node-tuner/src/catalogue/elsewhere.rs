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
        risk: "You must drain the node and delete the kubelet's state file",
        ..FIELD
    },
    Knob {
        name: "kubelet.cpuManagerPolicyOptions",
        place: Place::Kubelet("cpuManagerPolicyOptions"),
        values: all("full-pcpus-only=true,strict-cpu-reservation=true,\
                     prefer-align-cpus-by-uncorecache=true"),
        summary: "Options with which the static policy chooses CPUs",
        reason: "Pods get whole cores and CPUs that share a cache, but no reserved CPUs. The \
                 options need Kubernetes 1.34. On 1.33, omit prefer-align-cpus-by-uncorecache, \
                 which is alpha there and prevents the start of the kubelet",
        risk: "Pods that request half a core are rejected",
        ..FIELD
    },
    Knob {
        name: "kubelet.reservedSystemCPUs",
        kind: Kind::Cpus,
        place: Place::Kubelet("reservedSystemCPUs"),
        values: all("auto"),
        summary: "CPUs that are never exclusive",
        reason: "auto selects the CPUs for interrupts. The static policy needs at least one \
                 reserved CPU",
        source: "kubernetes.io: Reserve Compute Resources for System Daemons",
        risk: "Fewer CPUs for lanes",
        ..FIELD
    },
    Knob {
        name: "kubelet.topologyManagerPolicy",
        kind: Kind::Word(&["none", "best-effort", "restricted", "single-numa-node"]),
        place: Place::Kubelet("topologyManagerPolicy"),
        values: all("best-effort"),
        summary: "Whether a pod's CPUs, memory and devices are on the same NUMA node",
        reason: "best-effort prefers one NUMA node but rejects no pod, because the scheduler does \
                 not consider NUMA nodes",
        source: "kubernetes.io: Control Topology Management Policies on a Node",
        risk: "With restricted and single-numa-node, pods can fail permanently",
        ..FIELD
    },
    Knob {
        name: "kubelet.allowedUnsafeSysctls",
        place: Place::Kubelet("allowedUnsafeSysctls"),
        values: all("auto"),
        summary: "Unsafe sysctls that pods on this node may set",
        reason: "auto allows the sysctls of `generate service --unsafe` and `generate gateway \
                 --unsafe`, without which such pods do not start on the node. `generate kubelet` \
                 includes the setting only with `--unsafe`",
        source: "kubernetes.io: Using sysctls in a Kubernetes Cluster",
        risk: "All pods on the node may set these sysctls, so taint the node. The setting replaces \
               an existing list",
        ..FIELD
    },
    Knob {
        name: "containerd.nofile",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        place: Place::Containerd,
        values: ["100000", "262144", "2097152"],
        summary: "Maximum number of open files in a container, which is containerd's hard limit",
        reason: "A connection uses one file, or two in the gateway. Kubernetes has no field for \
                 the limit. The server raises its soft limit to the hard limit",
        source: "systemd.exec(5), LimitNOFILE",
        risk: "Old programs that close every file up to their limit become slow",
        ..FIELD
    },
    Knob {
        name: "boot.thash_entries",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        place: Place::Boot("net.ipv4.tcp_ehash_entries"),
        values: ["", "", "1048576"],
        summary: "Size of the connection hash table",
        reason: "Each connection has an entry. The kernel's default is at most 524,288 entries",
        source: "Documentation/admin-guide/kernel-parameters.txt",
        risk: "Memory, 8 bytes per entry, allocated at boot",
        ..FIELD
    },
];
