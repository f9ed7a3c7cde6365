//! Sysctls of a pod's own network namespace, shown by `generate service` and `generate gateway`.

use super::{CHOSEN, Kind, Knob, Place, Rule, Values, all};

const IP: &str = "Documentation/networking/ip-sysctl.rst";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pods {
    /// First Kubernetes version that allows the sysctl for any pod; empty for all versions. `None`
    /// if the kubelet must allow it.
    pub(crate) safe: Option<&'static str>,
    pub(crate) service: Values,
    pub(crate) gateway: Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Service,
    Gateway,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Service => "service",
            Role::Gateway => "gateway",
        }
    }
}

impl Pods {
    pub(crate) fn of(&self, role: Role) -> Values {
        match role {
            Role::Service => self.service,
            Role::Gateway => self.gateway,
        }
    }
}

const SAFE: Option<&str> = Some("");
const SAFE_FROM_1_29: Option<&str> = Some("1.29");
const SAFE_FROM_1_32: Option<&str> = Some("1.32");

const fn pods(safe: Option<&'static str>, service: Values, gateway: Values) -> Place {
    Place::Pod(Pods { safe, service, gateway })
}

/// A sysctl that no profile sets.
const LEFT: Knob = Knob {
    name: "",
    kind: Kind::Number { min: 0, max: i32::MAX as u64 },
    rule: Rule::Shown,
    place: pods(None, CHOSEN, CHOSEN),
    values: CHOSEN,
    summary: "",
    reason: "",
    source: IP,
    risk: "",
};

pub(super) static KNOBS: &[Knob] = &[
    Knob {
        name: "net.ipv4.ip_local_port_range",
        place: pods(SAFE, CHOSEN, all("10240 65535")),
        summary: "Local ports of the connections that the pod opens",
        reason: "The range has nearly twice as many ports as the kernel's range of 32768 to 60999, \
                 and lies above the listener ports",
        risk: "Listeners in the range can conflict with connections",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_fin_timeout",
        place: pods(SAFE_FROM_1_29, all("20"), all("20")),
        summary: "Seconds for which the kernel keeps a closed connection with a silent peer",
        reason: "The kernel's default of 60 keeps these connections three times as long. The C10k \
                 test needs 20",
        risk: "Slow peers lose the end of their data",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_rmem",
        place: pods(SAFE_FROM_1_32, ["", "", "4096 16384 6291456"], ["", "", "4096 16384 6291456"]),
        summary: "Size of a socket's receive buffer in bytes: minimum, default, maximum",
        reason: "A million mostly idle connections start with an eighth of the kernel's 128 KiB",
        risk: "Large request bodies are slower until the buffer has grown",
        ..LEFT
    },
    Knob {
        name: "net.core.somaxconn",
        source: "Documentation/admin-guide/sysctl/net.rst",
        place: pods(None, ["16384", "32768", "65535"], ["16384", "32768", "65535"]),
        summary: "Maximum length of the accept queue",
        reason: "The kernel's default of 4096 is less than the number of clients that may connect \
                 at once. Other clients retry after a second",
        risk: "Clients use more memory, and wait instead of getting an error",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_max_syn_backlog",
        place: pods(None, ["16384", "32768", "65535"], ["16384", "32768", "65535"]),
        summary: "Maximum number of incomplete handshakes per listener",
        reason: "It equals net.core.somaxconn, which limits it too",
        risk: "Memory, about 300 bytes per handshake",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_tw_reuse",
        place: pods(None, CHOSEN, all("1")),
        summary: "Whether a new connection may reuse a port in TIME-WAIT",
        reason: "The gateway opens connections to few addresses, so it can run out of ports. The \
                 setting needs TCP timestamps",
        risk: "No risk is known with timestamps",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ip_local_reserved_ports",
        place: pods(Some("1.27"), CHOSEN, CHOSEN),
        summary: "Ports that the kernel does not assign automatically",
        reason: "Only listeners within net.ipv4.ip_local_port_range need it",
        risk: "Fewer ports for connections",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ip_unprivileged_port_start",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "Lowest port on which an unprivileged process may listen",
        reason: "The charts do not need it, because they listen above 1024",
        risk: "Any process in the pod may use such a port",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ping_group_range",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "Groups whose processes may send ICMP echo requests",
        reason: "No Corelane program sends them",
        risk: "Processes of these groups can ping",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_syncookies",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "Whether handshakes continue when their queue is full",
        reason: "The kernel enables it by default",
        risk: "Without SYN cookies, a SYN flood blocks clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_time",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Idle seconds before the first keep-alive probe",
        reason: "Envoy sets its own value, and the server has timeouts instead",
        risk: "Probes wake idle clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_intvl",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Seconds between keep-alive probes",
        reason: "The reason is the same as for net.ipv4.tcp_keepalive_time",
        risk: "Probes wake idle clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_probes",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Number of unanswered keep-alive probes before the kernel closes a connection",
        reason: "The reason is the same as for net.ipv4.tcp_keepalive_time",
        risk: "Clients on bad networks are disconnected",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_wmem",
        place: pods(SAFE_FROM_1_32, CHOSEN, CHOSEN),
        summary: "Size of a socket's send buffer in bytes: minimum, default, maximum",
        reason: "The kernel's default of 16 KiB is small enough",
        risk: "Lower throughput",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_max_tw_buckets",
        summary: "Maximum number of connections in TIME-WAIT",
        reason: "The kernel's default is sufficient, and a lower value only frees memory",
        risk: "If connections are removed too early, old packets may reach new connections",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_notsent_lowat",
        summary: "Number of unsent bytes above which a socket is not writable",
        reason: "The server and the gateway set it for each socket",
        risk: "More wake-ups",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_slow_start_after_idle",
        summary: "Whether a connection returns to slow start after a pause",
        reason: "Slow start is appropriate for changing networks",
        risk: "Without slow start, bursts can hit a network that has become slower",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_fastopen",
        summary: "Whether the first packet may carry data",
        reason: "Many networks drop such packets",
        risk: "A request may arrive twice",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_migrate_req",
        summary: "Whether connections in an accept queue move to another listener when their \
                  listener closes",
        reason: "Drain the replica instead. Older kernels do not wake processes that wait with \
                 epoll for such connections",
        risk: "Some connections are never accepted",
        ..LEFT
    },
];
