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

/// Conntrack timeout for this state in seconds.
const TIMEOUT: Knob = Knob {
    kind: Kind::Number { min: 1, max: 1_000_000 },
    rule: Rule::Exact,
    source: CONNTRACK,
    risk: "If the time is too short, the kernel drops packets of open connections",
    ..LIMIT
};

const NEIGHBOURS: Knob = Knob {
    source: IP,
    risk: "Memory for stale neighbour entries, a few hundred bytes each",
    ..LIMIT
};

pub(super) static LIMITS: &[Knob] = &[
    Knob {
        name: "fs.file-max",
        kind: Kind::Number { min: 8192, max: i64::MAX as u64 },
        values: ["1000000", "2000000", "8000000"],
        summary: "Maximum number of open files of all processes",
        reason: "A connection uses one file, or two in the gateway, and the rest of the node also \
                 needs files",
        source: FS,
        risk: "Leaking processes can use more kernel memory",
        ..LIMIT
    },
    Knob {
        name: "fs.nr_open",
        kind: Kind::Number { min: 1024, max: 1 << 30 },
        values: ["1048576", "1048576", "2097152"],
        summary: "Highest open file limit that a process can have",
        reason: "It bounds every open file limit, so it must be at least the profile's \
                 containerd.nofile",
        source: FS,
        risk: "Programs that close every file up to their limit become slow",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_mem",
        kind: Kind::Three { max: i32::MAX as u64 },
        values: ["", "", "1048576 1572864 2097152"],
        summary: "Pages for all TCP sockets: threshold without pressure, threshold of pressure, \
                  maximum",
        reason: "A million connections with one page of data each need 4 GiB. The value is at most \
                 a quarter of the machine's memory. Below 500,000 connections, the kernel's \
                 default is sufficient",
        source: IP,
        risk: "The machine can run out of memory if other programs use the rest",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.tcp_max_orphans",
        values: ["16384", "65536", "262144"],
        summary: "Maximum number of connections without a process. The kernel resets further \
                  connections",
        reason: "When many clients disconnect at once, many closed connections wait for an \
                 acknowledgement",
        source: IP,
        risk: "Each connection can use up to 64 KiB of unswappable memory",
        ..LIMIT
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv4 neighbour count below which the kernel removes no entry",
        reason: "All pods and nodes of a flat network stay in the table, so that no first packet \
                 waits for ARP",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv4 neighbour count above which the kernel removes entries older than five \
                  seconds",
        reason: "It must exceed the number of concurrently active neighbours",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv4.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Maximum IPv4 neighbour count. Above it, the kernel drops packets",
        reason: "The kernel's default of 1024 is less than the number of pods in a large flat \
                 network",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh1",
        values: ["1024", "1024", "8192"],
        summary: "IPv6 neighbour count below which the kernel removes no entry",
        reason: "The reason is the same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh2",
        values: ["4096", "4096", "32768"],
        summary: "IPv6 neighbour count above which the kernel removes entries older than five \
                  seconds",
        reason: "The reason is the same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.ipv6.neigh.default.gc_thresh3",
        values: ["8192", "8192", "65536"],
        summary: "Maximum IPv6 neighbour count. Above it, the kernel drops packets",
        reason: "The reason is the same as for IPv4",
        ..NEIGHBOURS
    },
    Knob {
        name: "net.netfilter.nf_conntrack_max",
        values: ["131072", "524288", "2097152"],
        summary: "Maximum number of connections that the node tracks. Above it, the kernel drops \
                  packets",
        reason: "An entry stays for two minutes after its connection closes. If kube-proxy sets \
                 this value, change kube-proxy's conntrack.maxPerCore instead",
        source: CONNTRACK,
        risk: "An entry takes about 320 bytes. If the hash table does not grow, lookups take \
               longer",
        ..LIMIT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
        summary: "Seconds for which the kernel tracks a closed connection",
        reason: "A shorter time helps if many short connections fill the table",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_fin_wait",
        summary: "Seconds for which the kernel tracks a connection that one side has closed",
        reason: "A shorter time helps if clients disappear",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
        summary: "Seconds for which the kernel tracks a connection that the client has closed",
        reason: "kube-proxy sets an hour, for servers that take more than a minute to respond",
        ..TIMEOUT
    },
    Knob {
        name: "net.netfilter.nf_conntrack_tcp_timeout_established",
        summary: "Seconds for which the kernel tracks an idle connection",
        reason: "With the kernel's default of five days, entries of lost clients stay too long. \
                 kube-proxy sets a day",
        ..TIMEOUT
    },
];

pub(super) static NETWORK: &[Knob] = &[
    Knob {
        name: "net.core.netdev_max_backlog",
        values: ["4000", "10000", "10000"],
        summary: "Maximum number of packets that wait for a CPU. The kernel drops further packets",
        reason: "Packets to pods and packets distributed by RPS wait here. The kernel's default of \
                 1000 is too low for bursts of connections",
        source: NET,
        risk: "A longer queue causes longer waits on an overloaded CPU",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget",
        values: ["", "600", "600"],
        summary: "Maximum number of packets per receive poll, across all queues",
        reason: "Twice the kernel's default suits CPUs that mainly serve interrupts",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.netdev_budget_usecs",
        values: ["", "4000", "8000"],
        summary: "Maximum duration of a receive poll, in microseconds",
        reason: "The larger budget needs more time",
        source: NET,
        risk: "Threads on the same CPU wait longer",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_sock_flow_entries",
        kind: Kind::Number { min: 1, max: 1 << 29 },
        values: ["", "32768", "65536"],
        summary: "Number of flows for which the kernel records the reading CPU (RFS)",
        reason: "The kernel can then process packets on the CPU of the lane that reads the \
                 connection. Use 32,768 for a moderately loaded server, otherwise a power of two \
                 near the number of active connections",
        source: SCALING,
        risk: "More interrupts between CPUs",
        ..LIMIT
    },
    Knob {
        name: "net.core.rps_default_mask",
        kind: Kind::Cpus,
        rule: Rule::Mask,
        values: ["", "auto", "auto"],
        summary: "CPUs that process packets of devices created later, such as the node's end of a \
                  pod's device",
        reason: "The CPUs for interrupts do this work instead of pinned CPUs",
        source: NET,
        risk: "Too few CPUs can limit the receive rate",
        ..LIMIT
    },
    Knob {
        name: "net.rps_cpus",
        kind: Kind::Cpus,
        rule: Rule::Mask,
        place: Place::Receiving("rps_cpus"),
        values: ["", "auto", "auto"],
        summary: "CPUs that process the packets of a receive queue (RPS)",
        reason: "If there are fewer queues than CPUs, a few CPUs would do all the work. auto \
                 selects the CPUs for interrupts on the device's NUMA node, without pinned CPUs. \
                 If each CPU has a queue, the setting is redundant",
        source: SCALING,
        risk: "More interrupts between CPUs",
    },
    Knob {
        name: "net.rps_flow_cnt",
        kind: Kind::NumberOrAuto { min: 1, max: 1 << 29 },
        place: Place::Receiving("rps_flow_cnt"),
        values: ["", "auto", "auto"],
        summary: "Number of flows in a receive queue's table (RFS)",
        reason: "auto divides net.core.rps_sock_flow_entries by the number of queues",
        source: SCALING,
        risk: "Memory, a few bytes per flow",
        ..LIMIT
    },
    Knob {
        name: "net.xps_cpus",
        kind: Kind::Auto,
        rule: Rule::Mask,
        place: Place::Sending("xps_cpus"),
        values: CHOSEN,
        summary: "CPUs that use a transmit queue (XPS)",
        reason: "auto assigns queues to CPUs round-robin. The driver's default is usually right",
        source: SCALING,
        risk: "The setting is lost when the driver resets the device",
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
        reason: "auto selects all CPUs except the CPUs for interrupts. Otherwise, irqbalance would \
                 move interrupts back to pinned CPUs",
        source: "irqbalance(1)",
        risk: "irqbalance reads the setting only when it starts",
    },
    Knob {
        name: "irq.affinity",
        kind: Kind::Cpus,
        rule: Rule::Within,
        place: Place::Interrupts,
        values: all("auto"),
        summary: "CPUs that serve the interrupts of network devices",
        reason: "auto selects the CPUs for interrupts, if possible on the device's NUMA node, so \
                 that packets for other programs do not interrupt a pinned lane",
        source: AFFINITY,
        risk: "Too few CPUs can limit the receive rate",
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
        reason: "performance keeps the frequency high, so the first requests after a pause are not \
                 slower",
        source: "Documentation/admin-guide/pm/cpufreq.rst",
        risk: "Higher power consumption and temperature",
    },
    Knob {
        name: "cpu.dma_latency_us",
        kind: Kind::Number { min: 0, max: 2_000_000_000 },
        rule: Rule::Held,
        place: Place::File("/dev/cpu_dma_latency"),
        values: CHOSEN,
        summary: "Maximum time for waking a sleeping CPU, in microseconds",
        reason: "With a low value, rare requests are served without delay. When the agent exits, \
                 the kernel restores the original value",
        source: "Documentation/power/pm_qos_interface.rst",
        risk: "Higher power consumption, and less turbo for busy CPUs",
    },
    Knob {
        name: "vm.transparent_hugepage",
        kind: Kind::Word(&["always", "madvise", "never"]),
        rule: Rule::Choice,
        place: Place::File("/sys/kernel/mm/transparent_hugepage/enabled"),
        values: all("madvise"),
        summary: "Default use of huge pages",
        reason: "madvise provides huge pages only on request. With always, small allocations of \
                 many connections would grow, and compaction would block threads",
        source: "Documentation/admin-guide/mm/transhuge.rst",
        risk: "Programs that do not request huge pages lose their benefit. A change makes the \
               kernel recompute vm.min_free_kbytes, which restore does not change",
    },
];
