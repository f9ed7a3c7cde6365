//! Sysctls of a pod's own network namespace, shown by `generate service` and `generate gateway`.

use super::{CHOSEN, Kind, Knob, Place, Rule, Values, all};

const IP: &str = "Documentation/networking/ip-sysctl.rst";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pods {
    /// The Kubernetes version from which any pod may set the sysctl; empty for all versions. `None`
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
        summary: "Local ports of connections that the pod opens",
        reason: "Nearly twice as many as the kernel's 32768 to 60999, above the listeners, for \
                 connections to replicas",
        risk: "Conflicts with listeners in the range",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_fin_timeout",
        place: pods(SAFE_FROM_1_29, all("20"), all("20")),
        summary: "Seconds for which a closed connection with a silent peer is kept",
        reason: "The kernel's default, 60, keeps them three times as long; the C10k test needs 20",
        risk: "Slow peers lose the end of their data",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_rmem",
        place: pods(SAFE_FROM_1_32, ["", "", "4096 16384 6291456"], ["", "", "4096 16384 6291456"]),
        summary: "Bytes of a socket's receive buffer: minimum, default, maximum",
        reason: "A million mostly idle connections start with an eighth of the kernel's 128 KiB",
        risk: "Throughput of large request bodies, until the buffer has grown",
        ..LEFT
    },
    Knob {
        name: "net.core.somaxconn",
        source: "Documentation/admin-guide/sysctl/net.rst",
        place: pods(None, ["16384", "32768", "65535"], ["16384", "32768", "65535"]),
        summary: "Maximum length of the accept queue",
        reason: "The kernel's 4096 is less than the number of clients that may connect at once; \
                 others retry after a second",
        risk: "Memory; clients wait instead of receiving an error",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_max_syn_backlog",
        place: pods(None, ["16384", "32768", "65535"], ["16384", "32768", "65535"]),
        summary: "Maximum incomplete handshakes per listener",
        reason: "Equal to net.core.somaxconn, which also limits it",
        risk: "Memory, about 300 bytes each",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_tw_reuse",
        place: pods(None, CHOSEN, all("1")),
        summary: "Whether a new connection may reuse the port of one in TIME-WAIT",
        reason: "The gateway opens connections to few addresses, so ports run out first; requires \
                 TCP timestamps",
        risk: "None known with timestamps",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ip_local_reserved_ports",
        place: pods(Some("1.27"), CHOSEN, CHOSEN),
        summary: "Ports that are not assigned automatically",
        reason: "For listeners within net.ipv4.ip_local_port_range",
        risk: "Fewer ports for connections",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ip_unprivileged_port_start",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "The lowest port on which an unprivileged process may listen",
        reason: "The charts listen above 1024",
        risk: "Any process of the pod may use such a port",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.ping_group_range",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "Groups whose processes may send ICMP echo requests",
        reason: "No program of Corelane does",
        risk: "Processes of these groups can ping",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_syncookies",
        place: pods(SAFE, CHOSEN, CHOSEN),
        summary: "Whether handshakes continue when their queue is full",
        reason: "Enabled by default",
        risk: "Without it, a SYN flood blocks clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_time",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Idle seconds before the first keep-alive probe",
        reason: "Envoy sets its own; the server has timeouts instead",
        risk: "Wakes idle clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_intvl",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Seconds between keep-alive probes",
        reason: "As net.ipv4.tcp_keepalive_time",
        risk: "Wakes idle clients",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_keepalive_probes",
        place: pods(SAFE_FROM_1_29, CHOSEN, CHOSEN),
        summary: "Keep-alive probes without an answer before a connection is closed",
        reason: "As net.ipv4.tcp_keepalive_time",
        risk: "Clients on bad networks are disconnected",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_wmem",
        place: pods(SAFE_FROM_1_32, CHOSEN, CHOSEN),
        summary: "Bytes of a socket's send buffer: minimum, default, maximum",
        reason: "The kernel's default of 16 KiB is small enough",
        risk: "Throughput",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_max_tw_buckets",
        summary: "Maximum connections in TIME-WAIT",
        reason: "The kernel's default is sufficient; a lower value only frees memory",
        risk: "If removed too early, old packets may reach new connections",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_notsent_lowat",
        summary: "Unsent bytes above which a socket is not writable",
        reason: "Set per socket",
        risk: "More wake-ups",
        ..LEFT
    },
    Knob {
        name: "net.ipv4.tcp_slow_start_after_idle",
        summary: "Whether a connection returns to slow start after a pause",
        reason: "Appropriate for changing networks",
        risk: "Bursts on a network that has become slower",
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
        summary: "Whether connections in the accept queue move to another listener when theirs is \
                  closed",
        reason: "Drain instead: older kernels do not wake processes that wait with epoll for them",
        risk: "Connections that are never accepted",
        ..LEFT
    },
];
