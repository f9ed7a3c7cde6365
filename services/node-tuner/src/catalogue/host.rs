//! Host settings, which `apply` writes.

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
    risk: "If too short, packets of open connections are dropped",
    ..LIMIT
};

const NEIGHBOURS: Knob = Knob {
    source: IP,
    risk: "Memory for entries of previous neighbours, a few hundred bytes each",
    ..LIMIT
};

pub(super) static LIMITS: &[Knob] = &[
    Knob {
        name: "fs.file-max",
        kind: Kind::Number { min: 8192, max: i64::MAX as u64 },
        values: ["1000000", "2000000", "8000000"],
        summary: "Maximum open files of all processes",
        reason: "A connection is a file, in the gateway two; the rest of the node needs some too",
        source: FS,
        risk: "Leaking processes can use more kernel memory",
        ..LIMIT
    },
    Knob {
        name: "fs.nr_open",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        values: ["1048576", "1048576", "2097152"],
        summary: "Maximum limit of open files of a process",
        reason: "Bounds all limits of open files, so it is at least the profile's \
                 containerd.nofile",
        source: FS,
        risk: "Programs that close all files up to their limit become slow",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_mem",
        kind: Kind::Three { max: i32::MAX as u64 },
        values: ["", "", "1048576 1572864 2097152"],
        summary: "Pages that all TCP sockets may use: without pressure, under pressure, maximum",
        reason: "A million connections with a page of data each need 4 GiB. At most a quarter of \
                 the machine's memory; below 500,000 connections the kernel's default is \
                 sufficient",
        source: IP,
        risk: "Out of memory, if the rest is in use",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_max_orphans",
        values: ["16384", "65536", "262144"],
        summary: "Maximum connections without a process; more are reset",
        reason: "When many clients disconnect at once, many connections are closed but not \
                 acknowledged yet",
        source: IP,
        risk: "Each can use up to 64 KiB of unswappable memory",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv4 neighbours below which none is removed",
        reason: "Pods and nodes of a flat network stay in the table, so that no first packet \
                 waits for ARP",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv4 neighbours above which those older than five seconds are removed",
        reason: "Above the number of concurrently active neighbours",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Maximum IPv4 neighbours; above, packets are dropped",
        reason: "The kernel's 1024 is less than the number of pods of a large flat network",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv6 neighbours below which none is removed",
        reason: "Same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv6 neighbours above which those older than five seconds are removed",
        reason: "Same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Maximum IPv6 neighbours; above, packets are dropped",
        reason: "Same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.netfilter.nf_conntrack_max",
        values: ["131072", "524288", "2097152"],
        summary: "Maximum connections in the node's connection tracking; above, packets are \
                  dropped",
        reason: "Each connection has an entry until two minutes after its end. kube-proxy sets \
                 this itself: then change its conntrack.maxPerCore",
        source: CONNTRACK,
        risk: "About 320 bytes each; longer chains if the hash table does not grow",
        ..LIMIT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        summary: "Seconds for which a connection is tracked after its end",
        reason: "Shorter if many short connections fill the table",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
        summary: "Seconds for which a connection closed by one side is tracked",
        reason: "Shorter if clients disappear",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
        summary: "Seconds for which a connection closed by the client is tracked",
        reason: "kube-proxy sets it to an hour, for servers that answer after more than a minute",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_established",
        summary: "Seconds for which an idle connection is tracked",
        reason: "The kernel's default, five days, keeps entries of clients that have disappeared; kube-proxy \
                 sets it to a day",
        ..TIMEOUT
    },
];

pub(super) static NETWORK: &[Knob] = &[
    Knob {
        name: "net.core.netdev_max_backlog",
        values: ["4000", "10000", "10000"],
        summary: "Maximum packets that wait for a CPU; more are dropped",
        reason: "Packets of pods and of RPS wait here; the kernel's 1000 is too few for bursts of \
                 connections",
        source: NET,
        risk: "A longer queue means longer waits if the CPU is overloaded",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget",
        values: ["", "600", "600"],
        summary: "Maximum packets per receive poll, across all queues",
        reason: "Twice the kernel's, for CPUs that mainly serve interrupts",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget_usecs",
        values: ["", "4000", "8000"],
        summary: "Maximum microseconds per receive poll",
        reason: "Time for the larger budget",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_sock_flow_entries",
        kind: Kind::Number { min: 1, max: 1 << 29 },
        values: ["", "32768", "65536"],
        summary: "Flows for which the kernel records the CPU that reads them (RFS)",
        reason: "Processes packets on the CPU of the lane that reads the connection. 32,768 for a \
                 moderately loaded server, otherwise a power of two near the number of active \
                 connections",
        source: SCALING,
        risk: "Interrupts between CPUs",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_default_mask",
        kind: Kind::Cpus,
        rule: Rule::Mask,
        values: ["", "auto", "auto"],
        summary: "CPUs that process packets of devices created later, such as the node's end of \
                  pods' devices",
        reason: "The CPUs for interrupts, not the pinned ones",
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
        summary: "CPUs that process the packets of a receive queue (RPS)",
        reason: "With fewer queues than CPUs, few CPUs would do all the work. auto: those for \
                 interrupts on the device's NUMA node, not the pinned ones. Redundant if each CPU \
                 has a queue",
        source: SCALING,
        risk: "Interrupts between CPUs",
    },
    Knob {
        name: "net.rps_flow_cnt",
        kind: Kind::NumberOrAuto { min: 1, max: 1 << 29 },
        place: Place::Receiving("rps_flow_cnt"),
        values: ["", "auto", "auto"],
        summary: "Flows in the table of a receive queue (RFS)",
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
        summary: "CPUs that use a transmit queue (XPS)",
        reason: "auto: CPUs use the queues round-robin. The driver's default is usually right",
        source: SCALING,
        risk: "Lost when the driver resets the device",
    },
];

pub(super) static CPUS: &[Knob] = &[
    Knob {
        name: "irqbalance.banned_cpus",
        kind: Kind::Cpus,
        rule: Rule::Line,
        place: Place::Irqbalance,
        values: all("auto"),
        summary: "CPUs that irqbalance does not use",
        reason: "auto: all except those for interrupts. Otherwise it would move interrupts back \
                 to pinned CPUs",
        source: "irqbalance(1)",
        risk: "irqbalance reads it only when it starts",
    },
    Knob {
        name: "irq.affinity",
        kind: Kind::Cpus,
        rule: Rule::Within,
        place: Place::Interrupts,
        values: all("auto"),
        summary: "CPUs that serve the interrupts of network devices",
        reason: "auto: those for interrupts, on the device's NUMA node where there are any, so \
                 that packets of others do not interrupt a pinned lane",
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
        summary: "CPU frequency policy",
        reason: "performance keeps the frequency high, so that the first requests after a pause \
                 are not slower",
        source: "Documentation/admin-guide/pm/cpufreq.rst",
        risk: "Power and heat",
    },
    Knob {
        name: "cpu.dma_latency_us",
        kind: Kind::Number { min: 0, max: 2_000_000_000 },
        rule: Rule::Held,
        place: Place::File("/dev/cpu_dma_latency"),
        values: CHOSEN,
        summary: "Maximum microseconds for waking a sleeping CPU",
        reason: "Low if rare requests must be served without delay. The agent holds it while it \
                 runs; the kernel then restores it",
        source: "Documentation/power/pm_qos_interface.rst",
        risk: "Power; less turbo for busy CPUs",
    },
    Knob {
        name: "vm.transparent_hugepage",
        kind: Kind::Word(&["always", "madvise", "never"]),
        rule: Rule::Choice,
        place: Place::File("/sys/kernel/mm/transparent_hugepage/enabled"),
        values: all("madvise"),
        summary: "Use of huge pages by default",
        reason: "Only on request; otherwise small allocations of many connections grow, and \
                 compaction blocks threads",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        risk: "Programs that do not request huge pages lose their benefit. On a change, the kernel \
               recomputes vm.min_free_kbytes, which restore does not change",
    },
];
