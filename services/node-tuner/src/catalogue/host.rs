//! Settings of the host: `apply` writes them.

use super::{CHOSEN, Kind, Knob, Place, Rule, all};

const NET: &str = "Documentation/admin-guide/sysctl/net.rst";
const FS: &str = "Documentation/admin-guide/sysctl/fs.rst";
const IP: &str = "Documentation/networking/ip-sysctl.rst";
const SCALING: &str = "Documentation/networking/scaling.rst";
const CONNTRACK: &str = "Documentation/networking/nf_conntrack-sysctl.rst";
const AFFINITY: &str = "Documentation/core-api/irq/irq-affinity.rst";

/// A limit below /proc/sys that is raised if it is lower.
const LIMIT: Knob = Knob {
    name: "",
    kind: Kind::Number { min: 1, max: i32::MAX as u64 },
    rule: Rule::AtLeast,
    place: Place::Sysctl,
    values: CHOSEN,
    summary: "",
    reason: "",
    source: "",
    risk: "",
};

/// Seconds for which conntrack keeps a connection in this state.
const TIMEOUT: Knob = Knob {
    kind: Kind::Number { min: 1, max: 1_000_000 },
    rule: Rule::Exact,
    source: CONNTRACK,
    risk: "Too short, and packets of connections that still live are dropped",
    ..LIMIT
};

/// Size of the neighbour tables.
const NEIGHBOURS: Knob = Knob {
    source: IP,
    risk: "Memory for entries of neighbours that are gone, some hundred bytes each",
    ..LIMIT
};

/// Limits of the whole machine.
pub(super) static LIMITS: &[Knob] = &[
    Knob {
        name: "fs.file-max",
        kind: Kind::Number { min: 8192, max: i64::MAX as u64 },
        values: ["1000000", "2000000", "8000000"],
        summary: "Files that all processes together may have open",
        reason: "A connection is a file, at the gateway two; the rest of the node needs some too",
        source: FS,
        risk: "Kernel memory that leaking processes can take",
        ..LIMIT
    },
    Knob {
        name: "fs.nr_open",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        values: ["1048576", "1048576", "2097152"],
        summary: "Highest limit of open files that a process can have",
        reason: "No limit of open files can be above it, so it is at least the profile's containerd.nofile",
        source: FS,
        risk: "Programs that close all files up to their limit one by one get slow",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_mem",
        kind: Kind::Three { max: i32::MAX as u64 },
        values: ["", "", "1048576 1572864 2097152"],
        summary: "Pages that all TCP sockets may use: without care, with thrift, at most",
        reason: "A million connections with a page of data each need 4 GiB. Never more than a quarter of the \
                 machine's memory; below 500,000 connections the kernel's own share of it is enough",
        source: IP,
        risk: "Out of memory, where that much is in use for other things",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_max_orphans",
        values: ["16384", "65536", "262144"],
        summary: "Connections without a process that the kernel keeps; more are reset",
        reason: "When many clients leave at once, a part of all connections is closed but not yet acknowledged",
        source: IP,
        risk: "Each can take up to 64 KiB of memory that cannot be swapped",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv4 neighbours below which none is forgotten",
        reason: "Pods and nodes of one flat network stay known, so that no first packet waits for ARP",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv4 neighbours above which those older than five seconds are forgotten",
        reason: "Above the number of neighbours that talk at the same time",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Most IPv4 neighbours; above, packets are dropped",
        reason: "The kernel's 1024 is less than the pods of a large flat network",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv6 neighbours below which none is forgotten",
        reason: "As for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv6 neighbours above which those older than five seconds are forgotten",
        reason: "As for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Most IPv6 neighbours; above, packets are dropped",
        reason: "As for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.netfilter.nf_conntrack_max",
        values: ["131072", "524288", "2097152"],
        summary: "Connections that the node's packet filter can follow; above, packets are dropped",
        reason: "Each connection is an entry, and stays one for two minutes after its end. Where kube-proxy \
                 runs, it sets this itself: then its conntrack.maxPerCore is what to change",
        source: CONNTRACK,
        risk: "Some 320 bytes each; longer chains where the table of hashes stays as it is",
        ..LIMIT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        summary: "Seconds for which the packet filter follows a connection after its end",
        reason: "Shorter, where many short connections fill the table",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
        summary: "Seconds for which it follows a connection that one side has ended",
        reason: "Shorter, where clients vanish",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
        summary: "Seconds for which it follows a connection that the client has ended",
        reason: "kube-proxy sets it to an hour, for servers that answer later than after a minute",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_established",
        summary: "Seconds for which it follows a connection on which nothing is said",
        reason: "The kernel's five days keep entries of clients that vanished; kube-proxy sets it to a day",
        ..TIMEOUT
    },
];

/// Receiving packets.
pub(super) static NETWORK: &[Knob] = &[
    Knob {
        name: "net.core.netdev_max_backlog",
        values: ["4000", "10000", "10000"],
        summary: "Packets that wait for a CPU; more are dropped",
        reason: "Packets of pods, and those that RPS hands over, wait here; the kernel's 1000 is short for a \
                 storm of connections",
        source: NET,
        risk: "A longer queue is a longer wait when the CPU cannot keep up",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget",
        values: ["", "600", "600"],
        summary: "Packets that one round of receiving takes from all queues",
        reason: "Twice the kernel's, for CPUs that do little else: those for interrupts",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget_usecs",
        values: ["", "4000", "8000"],
        summary: "Microseconds that one round of receiving may take",
        reason: "Time for the larger budget",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_sock_flow_entries",
        kind: Kind::Number { min: 1, max: 1 << 29 },
        values: ["", "32768", "65536"],
        summary: "Flows for which the kernel remembers the CPU that reads them (RFS)",
        reason: "A lane reads its connections on one CPU: packets are processed there, in its cache. 32,768 \
                 for a moderately loaded server, a power of two near the active connections for others",
        source: SCALING,
        risk: "Interrupts between CPUs",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_default_mask",
        kind: Kind::Cpus,
        rule: Rule::Mask,
        values: ["", "auto", "auto"],
        summary: "CPUs that process packets of devices made later, such as the node's side of pods'",
        reason: "Those for interrupts: not the pinned ones",
        source: NET,
        risk: "Too few CPUs become the bottleneck of receiving",
        ..LIMIT
    },
    Knob {
        name: "net.rps_cpus",
        kind: Kind::Cpus,
        rule: Rule::Mask,
        place: Place::Receiving("rps_cpus"),
        values: ["", "auto", "auto"],
        summary: "CPUs that process what a queue receives (RPS)",
        reason: "With fewer queues than CPUs, one CPU would do it all. auto: those for interrupts, not the \
                 pinned ones. Redundant where each CPU has a queue",
        source: SCALING,
        risk: "Interrupts between CPUs",
    },
    Knob {
        name: "net.rps_flow_cnt",
        kind: Kind::NumberOrAuto { min: 1, max: 1 << 29 },
        place: Place::Receiving("rps_flow_cnt"),
        values: ["", "auto", "auto"],
        summary: "Flows that one queue remembers (RFS)",
        reason: "auto: net.core.rps_sock_flow_entries divided by the number of queues",
        source: SCALING,
        risk: "Memory, a few bytes each",
        ..LIMIT
    },
    Knob {
        name: "net.xps_cpus",
        kind: Kind::Auto,
        rule: Rule::Mask,
        place: Place::Sending("xps_cpus"),
        values: CHOSEN,
        summary: "CPUs that send through a queue (XPS)",
        reason: "auto: CPUs use the queues round-robin. The driver's own choice is mostly right",
        source: SCALING,
        risk: "Lost when the driver resets the device",
    },
];

/// Interrupts, timers and power management of CPUs.
pub(super) static CPUS: &[Knob] = &[
    Knob {
        name: "irqbalance.banned_cpus",
        kind: Kind::Cpus,
        rule: Rule::Line,
        place: Place::Irqbalance,
        values: all("auto"),
        summary: "CPUs to which irqbalance moves no interrupt",
        reason: "auto: all but those for interrupts. Else it would move interrupts back to pinned CPUs",
        source: "irqbalance(1)",
        risk: "irqbalance reads it only when it starts",
    },
    Knob {
        name: "irq.affinity",
        kind: Kind::Cpus,
        rule: Rule::Within,
        place: Place::Interrupts,
        values: all("auto"),
        summary: "CPUs that take the interrupts of network devices",
        reason: "auto: those for interrupts, so that a pinned lane is not stopped for others' packets",
        source: AFFINITY,
        risk: "Too few CPUs become the bottleneck of receiving",
    },
    Knob {
        name: "cpu.governor",
        kind: Kind::Word(&[
            "performance",
            "powersave",
            "schedutil",
            "ondemand",
            "conservative",
            "userspace",
        ]),
        rule: Rule::Choice,
        place: Place::Governors,
        values: CHOSEN,
        summary: "Policy for the frequency of CPUs",
        reason: "performance keeps it high, so that the first requests after a pause are not slower",
        source: "Documentation/admin-guide/pm/cpufreq.rst",
        risk: "Power and heat",
    },
    Knob {
        name: "cpu.dma_latency_us",
        kind: Kind::Number { min: 0, max: 2_000_000_000 },
        rule: Rule::Held,
        place: Place::File("/dev/cpu_dma_latency"),
        values: CHOSEN,
        summary: "Microseconds that a sleeping CPU may need to wake",
        reason: "Low, where even rare requests must be answered at once. The agent holds it for as long as it \
                 runs; the kernel takes it back by itself",
        source: "Documentation/power/pm_qos_interface.rst",
        risk: "Power; less turbo for the CPUs that work",
    },
    Knob {
        name: "vm.transparent_hugepage",
        kind: Kind::Word(&["always", "madvise", "never"]),
        rule: Rule::Choice,
        place: Place::File("/sys/kernel/mm/transparent_hugepage/enabled"),
        values: all("madvise"),
        summary: "Use of huge pages by default",
        reason: "Only on request, else small allocations of many connections grow, and compaction stops threads",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        risk: "Programs that gained from it by default lose that. To or from never, the kernel recomputes \
               vm.min_free_kbytes, which restore does not change",
    },
];
