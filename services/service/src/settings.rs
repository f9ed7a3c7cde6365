//! All settings of a process: settings of the library, the platform and the service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corelane::{
    Builder, ClientIdentity, Cost, Drain, ForwardedHeader, Lanes, Limits, Listen, LoadReports,
    Moving, Pin, Placement, Server, SlowLanes, Timeouts, Tls, TlsClients, TrustedProxy,
};
use serde_json::json;

#[cfg(feature = "auth")]
use crate::auth::AuthKeys;
#[cfg(feature = "jwt")]
use crate::auth::JwtKeys;
use crate::config::{ConfigErrors, Key, Keys, Settings};
#[cfg(feature = "faults")]
use crate::faults::FaultKeys;
use crate::log::Logging;
use crate::telemetry::Otlp;
use crate::value::{
    self, Allowed, HOUR, MILLISECOND, address, choice, duration, file, list, name, number,
    optional, size, switch, unless, word,
};

/// 365.25 days, as in humantime.
const YEAR: Duration = Duration::from_secs(31_557_600);

/// The setting that decides whether lanes have slow lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlowMode {
    /// Lanes have slow lanes only if the lanes are pinned.
    Auto,
    On,
    Off,
}

impl SlowMode {
    const WORDS: &[(&str, Self)] =
        &[("auto", SlowMode::Auto), ("on", SlowMode::On), ("off", SlowMode::Off)];
}

settings! {
    pub(crate) struct Runtime {
        "listen" => listen: Vec<Listen> = "127.0.0.1:8080", places,
            "Listen addresses, separated by commas: IP:PORT, unix:PATH?mode=660 for a Unix \
             socket, or inherited:NAME for a systemd socket";
        "proxy_protocol" => proxy_protocol: bool = "off", switch,
            "Whether every connection must start with a PROXY protocol header, version 1 or 2: on \
             or off";
        "trusted_proxies" => trusted_proxies: Vec<TrustedProxy> = "", list(word::<TrustedProxy>),
            "Proxies that are trusted to name the client: addresses and networks, separated by \
             commas, or unix for proxies on a Unix socket";
        "forwarded_header" => forwarded_header: ForwardedHeader = "x-forwarded-for", choice(ForwardedHeader::WORDS),
            "Header in which trusted proxies name the client: x-forwarded-for or forwarded";
        "admin.listen" => admin_listen: SocketAddr = "127.0.0.1:8081", address,
            "Address of the admin port: /healthz, /readyz, /metrics, /lanes; /faults and /log-level \
             change the behaviour of the server";
        "replica" => replica: String = "", name,
            "Name of this replica in its responses; if empty, the host name";
        "lanes" => lanes: Lanes = "auto", lanes,
            "Number of lanes; auto starts one per CPU that affinity, cpuset and quota allow";
        "pin" => pin: Pin = "auto", choice(Pin::WORDS),
            "Pin each lane to a CPU: on, off, or auto (only where the CPUs are exclusive)";
        "placement" => placement: Placement = "hashed", choice(Placement::WORDS),
            "How a new connection gets its lane: hashed (by the kernel) or least-loaded";
        "backlog" => backlog: u64 = "4096", number(1, 65_535),
            "Length of each listener's accept queue; the kernel caps it at net.core.somaxconn";
        "park_after" => park_after: Option<Duration> = "5s",
            optional(duration(100 * MILLISECOND, 24 * HOUR)),
            "Idle time after which an HTTP/1.1 connection is parked, which frees nearly all of \
             its memory; off disables parking";
        "moving" => moving: Moving = "parked-only", choice(Moving::WORDS),
            "Connections that may move to another lane between requests: parked-only, or active \
             (all connections; needs placement hashed)";
        "limits.connections" => limits_connections: u64 = "10000", number(1, 10_000_000),
            "Maximum open connections; more are rejected with 503";
        "limits.connections_per_address" => limits_connections_per_address: Option<u64> = "off",
            optional(number(1, 10_000_000)),
            "Maximum open connections per client address (per /64 for IPv6); more are rejected \
             with 503; off sets no limit";
        "limits.connection_requests" => limits_connection_requests: Option<u64> = "off",
            optional(number(1, 1 << 40)), "Requests after which a connection is closed gracefully; off sets no limit";
        "limits.slots" => limits_slots: u64 = "1024", number(1, 1_000_000),
            "Maximum concurrent requests per lane";
        "limits.queue" => limits_queue: u64 = "1024", number(0, 1_000_000),
            "Maximum requests per lane that wait for a slot; more are rejected with 503";
        "limits.blocking_threads" => limits_blocking_threads: u64 = "8", number(1, 512),
            "Threads per lane for blocking code and file access";
        "limits.blocking_queue" => limits_blocking_queue: u64 = "256", number(0, 1_000_000),
            "Maximum blocking calls per lane that wait for a thread";
        "limits.headers" => limits_headers: u64 = "100", number(1, 1_000),
            "Maximum header fields of a request; more are rejected with 431";
        "limits.header_bytes" => limits_header_bytes: u64 = "32KiB", size(8 << 10, 1 << 20),
            "Maximum size of a request's header; more is rejected with 431";
        "limits.uri_bytes" => limits_uri_bytes: u64 = "8KiB", size(1, 64 << 10),
            "Maximum size of a request's target; more is rejected with 414";
        "limits.body_bytes" => limits_body_bytes: u64 = "10MiB", size(0, 1 << 40),
            "Maximum size of a request's body; more is rejected with 413";
        "limits.unsent_bytes" => limits_unsent_bytes: u64 = "128MiB", size(1 << 20, 1 << 40),
            "Unsent response bytes above which requests are rejected with 503";
        "limits.unsent_connection_bytes" => limits_unsent_connection_bytes: u64 = "2MiB",
            size(64 << 10, 1 << 30),
            "Unsent bytes of an HTTP/2 connection above which its responses pause";
        "limits.send_rate" => limits_send_rate: Option<u64> = "240B", optional(size(1, 1 << 40)),
            "Minimum bytes per second at which a client must read a response, averaged over \
             timeouts.slow; off sets no minimum";
        "limits.receive_rate" => limits_receive_rate: Option<u64> = "240B", optional(size(1, 1 << 40)),
            "Minimum bytes per second at which a client must send a body, averaged over \
             timeouts.slow; off sets no minimum";
        "timeouts.header" => timeouts_header: Duration = "10s", duration(100 * MILLISECOND, HOUR),
            "Time limit for a whole request header";
        "timeouts.body" => timeouts_body: Duration = "30s", duration(100 * MILLISECOND, HOUR),
            "Time limit for the next bytes of a request's body";
        "timeouts.request" => timeouts_request: Duration = "60s", duration(100 * MILLISECOND, 24 * HOUR),
            "Time limit from a request's header to the head of its response, including the queue";
        "timeouts.write" => timeouts_write: Duration = "30s", duration(100 * MILLISECOND, HOUR),
            "Time limit for a client to read the next part of a response";
        "timeouts.slow" => timeouts_slow: Duration = "30s", duration(100 * MILLISECOND, HOUR),
            "Period over which limits.send_rate and limits.receive_rate are averaged";
        "timeouts.connection_age" => timeouts_connection_age: Option<Duration> = "1h",
            optional(duration(Duration::from_secs(1), YEAR)),
            "Maximum age of a connection, less a random tenth; off sets no limit";
        "timeouts.idle" => timeouts_idle: Duration = "75s", duration(100 * MILLISECOND, 24 * HOUR),
            "Time a connection may stay idle; must be longer than the gateway's upstream idle timeout";
        "timeouts.stall" => timeouts_stall: Duration = "1s", duration(10 * MILLISECOND, HOUR),
            "Time after which a handler that blocks its lane is logged and counted as a stall";
        "drain.settle" => drain_settle: Duration = "5s", duration(Duration::ZERO, HOUR),
            "Time after SIGTERM during which readiness fails but connections are still accepted";
        "drain.deadline" => drain_deadline: Duration = "30s", duration(Duration::ZERO, HOUR),
            "Maximum time from SIGTERM to exit";
        "drain.report" => drain_report: Duration = "5s", duration(100 * MILLISECOND, HOUR),
            "Interval at which a drain logs what its lanes are waiting for";
        "tls.certificate" => tls_certificate: Option<PathBuf> = "", file,
            "PEM file of the certificate chain for TLS; empty serves plain HTTP";
        "tls.key" => tls_key: Option<PathBuf> = "", file,
            "PEM file of the certificate's private key";
        "tls.clients.ca" => tls_clients_ca: Option<PathBuf> = "", file,
            "PEM file of the CAs whose certificates TLS clients must present; empty admits clients without one";
        "tls.clients.allow" => tls_clients_allow: Vec<ClientIdentity> = "", list(word::<ClientIdentity>),
            "Identities of which a TLS client must prove one";
        "tls.reload" => tls_reload: Duration = "10s", duration(100 * MILLISECOND, 24 * HOUR),
            "Interval at which the TLS files are checked; a changed certificate is loaded";
        "load_reports" => load_reports: LoadReports = "off", choice(LoadReports::WORDS),
            "Load reports (ORCA) to the gateway in responses: off, text or json";
        "request_ids" => request_ids: bool = "on", switch,
            "Whether each response carries an x-request-id, copied from the request or generated: \
             on or off";
        "plain_requests" => plain_requests: bool = "on", switch,
            "Whether plain HTTP/1.1 requests take the plain path: on or off";
        "slow_lanes.mode" => slow_lanes_mode: SlowMode = "auto", choice(SlowMode::WORDS),
            "Whether each lane has a slow lane, which serves expensive requests at a lower \
             priority: on, off, or auto (on if lanes are pinned)";
        "slow_lanes.bound" => slow_lanes_bound: Duration = "500us",
            duration(Duration::from_micros(20), Duration::from_secs(1)),
            "Handler time on a lane above which a route counts as expensive";
        "slow_lanes.share" => slow_lanes_share: f64 = "0.15", share,
            "Minimum share of a CPU for a slow lane while its lane is busy";
        "slow_lanes.expensive" => slow_lanes_expensive: Vec<String> = "", list(value::text),
            "Route templates, separated by commas, that slow lanes serve from the first request";
        "slow_lanes.cheap" => slow_lanes_cheap: Vec<String> = "", list(value::text),
            "Route templates, separated by commas, that slow lanes never serve";
    }
}

impl Runtime {
    pub(crate) fn replica_name(&self) -> String {
        match self.replica.as_str() {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            name => name.to_owned(),
        }
    }

    pub(crate) fn tls(&self) -> Result<Option<Tls>, ConfigErrors> {
        let shown = |file: &Option<PathBuf>| file.as_ref().map(|file| format!("{file:?}"));
        let (certificate, key) = (&shown(&self.tls_certificate), &shown(&self.tls_key));
        let (ca, names) = (&shown(&self.tls_clients_ca), &self.tls_clients_allow);
        let allow = &names.first().map(|name| format!("{:?}", name.as_str()));
        let needs = [
            ("tls.certificate", certificate, "tls.key", key),
            ("tls.key", key, "tls.certificate", certificate),
            ("tls.clients.ca", ca, "tls.clients.allow", allow),
            ("tls.clients.allow", allow, "tls.clients.ca", ca),
            ("tls.clients.ca", ca, "tls.certificate", certificate),
        ];
        let missing = needs.into_iter().filter(|(.., needed)| needed.is_none());
        let missing = missing.filter_map(|(key, value, other, _)| {
            let value = value.as_ref()?;
            Some(format!("{key} = {value} needs {other}, which is empty: set both or neither"))
        });
        let missing = missing.collect::<Vec<_>>();
        if !missing.is_empty() {
            return Err(ConfigErrors(missing));
        }
        let clients = self.tls_clients_ca.clone();
        let clients = clients.map(|ca| TlsClients { ca, allow: names.clone() });
        let files = self.tls_certificate.as_ref().zip(self.tls_key.as_ref());
        Ok(files.map(|(certificate, key)| Tls {
            reload: self.tls_reload,
            clients,
            ..Tls::new(certificate, key)
        }))
    }

    /// Applies these settings to a new server builder, except for TLS.
    pub(crate) fn builder(&self) -> Builder {
        let listening = self.listen.iter().cloned().fold(Server::builder(), |builder, place| {
            builder.listen(place.proxy_protocol(self.proxy_protocol))
        });
        let cheap = self.slow_lanes_cheap.iter().map(|template| (template, Cost::Cheap));
        let expensive =
            self.slow_lanes_expensive.iter().map(|template| (template, Cost::Expensive));
        let costs = cheap.chain(expensive);
        let listening =
            costs.fold(listening, |builder, (template, cost)| builder.cost(template, cost));
        listening
            .admin(self.admin_listen)
            .lanes(self.lanes)
            .pin(self.pin)
            .placement(self.placement)
            .backlog(self.backlog as u32)
            .park_after(self.park_after)
            .moving(self.moving)
            .limits(Limits {
                connections: self.limits_connections as usize,
                connections_per_address: self.limits_connections_per_address.map(|n| n as usize),
                connection_requests: self.limits_connection_requests,
                slots: self.limits_slots as usize,
                queue: self.limits_queue as usize,
                blocking_threads: self.limits_blocking_threads as usize,
                blocking_queue: self.limits_blocking_queue as usize,
                headers: self.limits_headers as usize,
                header_bytes: self.limits_header_bytes as usize,
                uri_bytes: self.limits_uri_bytes as usize,
                body_bytes: self.limits_body_bytes,
                unsent_bytes: self.limits_unsent_bytes,
                unsent_connection_bytes: self.limits_unsent_connection_bytes as usize,
                send_rate: self.limits_send_rate,
                receive_rate: self.limits_receive_rate,
            })
            .timeouts(Timeouts {
                header: self.timeouts_header,
                body: self.timeouts_body,
                request: self.timeouts_request,
                write: self.timeouts_write,
                slow: self.timeouts_slow,
                connection_age: self.timeouts_connection_age,
                idle: self.timeouts_idle,
                stall: self.timeouts_stall,
            })
            .drain(Drain {
                settle: self.drain_settle,
                deadline: self.drain_deadline,
                report: self.drain_report,
            })
            .load_reports(self.load_reports)
            .request_ids(self.request_ids)
            .plain_requests(self.plain_requests)
            .slow_lanes((self.slow_lanes_mode != SlowMode::Off).then_some(SlowLanes {
                bound: self.slow_lanes_bound,
                share: self.slow_lanes_share,
                unpinned: self.slow_lanes_mode == SlowMode::On,
            }))
            .trusted_proxies(self.trusted_proxies.iter().cloned())
            .forwarded_header(self.forwarded_header)
    }
}

fn places(text: &str) -> Result<Vec<Listen>, Allowed> {
    let places = list(word::<Listen>)(text)?;
    // An empty text gives the error message for a single place.
    if places.is_empty() { Ok(vec![word::<Listen>(text)?]) } else { Ok(places) }
}

fn share(text: &str) -> Result<f64, Allowed> {
    match text.parse() {
        Ok(share) if (0.01..=0.5).contains(&share) => Ok(share),
        _ => Err(Allowed::new(
            "a number from 0.01 to 0.5",
            json!({"type": ["number", "string"], "minimum": 0.01, "maximum": 0.5, "pattern": "^[+.0-9Ee-]+$"}),
        )),
    }
}

fn lanes(text: &str) -> Result<Lanes, Allowed> {
    let number = unless("auto", number(1, Lanes::MAX as u64))(text)?;
    Ok(number.map_or(Lanes::Auto, |number| Lanes::Count(number as usize)))
}

#[derive(Debug)]
pub(crate) struct Config<C> {
    pub(crate) runtime: Runtime,
    pub(crate) own: C,
    #[cfg(feature = "auth")]
    pub(crate) auth: AuthKeys,
    #[cfg(feature = "jwt")]
    pub(crate) jwt: JwtKeys,
    #[cfg(feature = "faults")]
    pub(crate) faults: FaultKeys,
    pub(crate) otlp: Otlp,
    pub(crate) log: Logging,
}

impl<C: Keys> Config<C> {
    pub(crate) fn keys() -> Vec<Key> {
        [
            Runtime::KEYS,
            C::KEYS,
            #[cfg(feature = "auth")]
            AuthKeys::KEYS,
            #[cfg(feature = "jwt")]
            JwtKeys::KEYS,
            #[cfg(feature = "faults")]
            FaultKeys::KEYS,
            Otlp::KEYS,
            Logging::KEYS,
        ]
        .concat()
    }

    /// Parses every setting, or returns `None` if any is invalid. The errors name each invalid
    /// setting and each unknown key.
    pub(crate) fn parse(settings: &Settings) -> (Option<Self>, ConfigErrors) {
        let mut errors = settings.problems.clone();
        let runtime = Runtime::parse(settings, &mut errors);
        let own = C::parse(settings, &mut errors);
        #[cfg(feature = "auth")]
        let auth = AuthKeys::parse(settings, &mut errors);
        #[cfg(feature = "jwt")]
        let jwt = JwtKeys::parse(settings, &mut errors);
        #[cfg(feature = "faults")]
        let faults = FaultKeys::parse(settings, &mut errors);
        let otlp = Otlp::parse(settings, &mut errors);
        let log = Logging::parse(settings, &mut errors);
        let whole = || {
            Some(Config {
                runtime: runtime?,
                own: own?,
                #[cfg(feature = "auth")]
                auth: auth?,
                #[cfg(feature = "jwt")]
                jwt: jwt?,
                #[cfg(feature = "faults")]
                faults: faults?,
                otlp: otlp?,
                log: log?,
            })
        };
        (whole(), errors.into())
    }

    /// Values that this machine determines for settings such as `auto`, for `--check` and
    /// `/config`.
    pub(crate) fn effective(&self, builder: &Builder) -> Vec<(&'static str, String)> {
        let lanes = builder.planned_lanes().map(|lanes| ("lanes", lanes.to_string()));
        lanes.into_iter().chain([("replica", self.runtime.replica_name())]).collect()
    }
}
