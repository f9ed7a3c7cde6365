//! The schema: every key with its type, default, bounds and description, in one table.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use corelane::{ForwardedHeader, Lanes, Listen, LoadReports, Moving, Pin, Placement, TrustedProxy};
use corelane_files::Rules;
use corelane_service::config::{ConfigErrors, Key, Program, Settings};
use corelane_service::log::{Format, Level};
use corelane_service::value::{
    address, duration, file, folder, list, name, number, optional, ratio, size, switch, text, word,
};

use super::DatabaseKind;
use super::{Endpoint, endpoint, places};

/// The program's command line and environment.
pub(crate) const PROGRAM: Program = Program {
    name: "corelane-server",
    version: env!("CARGO_PKG_VERSION"),
    about: "The reference service of Corelane: HTTP on lanes, one per CPU",
    prefix: "CORELANE_",
    keys: KEYS,
};

macro_rules! schema {
    ($($name:literal => $field:ident: $type:ty = $default:literal, $parse:expr, $help:literal;)*) => {
        /// Every key, in the order of the help.
        const KEYS: &[Key] =
            &[$(Key { name: $name, default: $default, help: $help }),*];

        /// A valid configuration.
        #[derive(Debug)]
        pub(crate) struct Config {
            $(pub(crate) $field: $type,)*
        }

        impl Config {
            /// Parses every setting. The errors name each invalid one.
            pub(crate) fn parse(settings: &Settings) -> Result<Self, ConfigErrors> {
                let mut errors = Vec::new();
                let mut keys = KEYS.iter();
                $(let $field: Option<$type> =
                    keys.next().and_then(|key| settings.parse(key, $parse, &mut errors));)*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Config { $($field),* }),
                    _ => Err(ConfigErrors(errors)),
                }
            }
        }
    };
}

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// As in humantime: 365.25 days.
const YEAR: Duration = Duration::from_secs(31_557_600);

schema! {
    "listen" => listen: Vec<Listen> = "127.0.0.1:8080", places,
        "Where to serve traffic, separated by commas: addresses, unix:PATH?mode=660 for a Unix socket, \
         inherited:NAME for a socket of systemd";
    "proxy_protocol" => proxy_protocol: bool = "off", switch,
        "Whether every connection must start with a header of the PROXY protocol, version 1 or 2: on or off";
    "trusted_proxies" => trusted_proxies: Vec<TrustedProxy> = "", list(word::<TrustedProxy>),
        "Networks and addresses of the proxies in front, separated by commas, that may name the client; \
         unix for those at a Unix socket";
    "forwarded_header" => forwarded_header: ForwardedHeader = "x-forwarded-for", word::<ForwardedHeader>,
        "Header in which trusted proxies name the client: x-forwarded-for or forwarded";
    "admin.listen" => admin_listen: SocketAddr = "127.0.0.1:8081", address,
        "Address of the admin port: /healthz, /readyz, /metrics, /lanes; /faults and /log-level \
         change the behaviour of the server";
    "replica" => replica: String = "", name,
        "Name of this replica in its replies; empty takes the host name";
    "lanes" => lanes: Lanes = "auto", word::<Lanes>,
        "Number of lanes; auto makes one per CPU that affinity, cpuset and quota allow";
    "pin" => pin: Pin = "auto", word::<Pin>,
        "Pin each lane to a CPU: on, off, or auto (only where the CPUs are exclusive)";
    "placement" => placement: Placement = "hashed", word::<Placement>,
        "Lane of a new connection: hashed (by the kernel), shared (idle lanes accept), least-loaded";
    "steering" => steering: bool = "off", switch,
        "With placement hashed and pinned lanes: the CPU that receives a connection chooses its lane: on or off";
    "backlog" => backlog: u64 = "4096", number(1, 65_535),
        "Length of each listener's accept queue; the kernel caps it at net.core.somaxconn";
    "park_after" => park_after: Option<Duration> = "5s",
        optional(duration(100 * MILLISECOND, 24 * HOUR)),
        "Time an HTTP/1.1 connection is idle before it is parked, to need little memory in addition to its socket; off disables parking";
    "moving" => moving: Moving = "parked-only", word::<Moving>,
        "Connections that may move to another lane between requests: off (none), parked-only, active (also those in use)";
    "limits.connections" => limits_connections: u64 = "10000", number(1, 10_000_000),
        "Maximum open connections; further ones are rejected with 503";
    "limits.connections_per_address" => limits_connections_per_address: Option<u64> = "off",
        optional(number(1, 10_000_000)),
        "Maximum open connections of one address (of IPv6: one /64); further ones are rejected with 503; off sets no limit";
    "limits.connection_requests" => limits_connection_requests: Option<u64> = "off",
        optional(number(1, 1 << 40)), "Requests of a connection before it is closed gracefully; off sets no limit";
    "limits.slots" => limits_slots: u64 = "1024", number(1, 1_000_000),
        "Requests that run on a lane at the same time";
    "limits.queue" => limits_queue: u64 = "1024", number(0, 1_000_000),
        "Requests that may wait for a slot of their lane; further ones are rejected with 503";
    "limits.blocking_threads" => limits_blocking_threads: u64 = "8", number(1, 512),
        "Threads of each lane for blocking code and files";
    "limits.blocking_queue" => limits_blocking_queue: u64 = "256", number(0, 1_000_000),
        "Blocking calls of a lane that may wait for a thread";
    "limits.headers" => limits_headers: u64 = "100", number(1, 1_000),
        "Maximum header fields of a request; more are rejected with 431";
    "limits.header_bytes" => limits_header_bytes: u64 = "32KiB", size(8 << 10, 1 << 20),
        "Maximum size of a request's header; more is rejected with 431";
    "limits.uri_bytes" => limits_uri_bytes: u64 = "8KiB", size(1, 64 << 10),
        "Maximum size of a request's target; more is rejected with 414";
    "limits.body_bytes" => limits_body_bytes: u64 = "10MiB", size(0, 1 << 40),
        "Maximum size of a request's body; more is rejected with 413";
    "limits.unsent_bytes" => limits_unsent_bytes: u64 = "128MiB", size(1 << 20, 1 << 40),
        "Bytes of replies that wait for their clients, above which requests are rejected with 503";
    "limits.unsent_connection_bytes" => limits_unsent_connection_bytes: u64 = "2MiB",
        size(64 << 10, 1 << 30),
        "Such bytes of an HTTP/2 connection, above which its replies are not continued";
    "limits.send_rate" => limits_send_rate: Option<u64> = "240B", optional(size(1, 1 << 40)),
        "Bytes per second at which a client has to read a reply, on average over timeouts.slow; off sets no rate";
    "limits.receive_rate" => limits_receive_rate: Option<u64> = "240B", optional(size(1, 1 << 40)),
        "Bytes per second at which a client has to send a body, on average over timeouts.slow; off sets no rate";
    "timeouts.header" => timeouts_header: Duration = "10s", duration(100 * MILLISECOND, HOUR),
        "Time limit for a whole request header";
    "timeouts.body" => timeouts_body: Duration = "30s", duration(100 * MILLISECOND, HOUR),
        "Time limit for the next bytes of a request's body";
    "timeouts.request" => timeouts_request: Duration = "60s", duration(100 * MILLISECOND, 24 * HOUR),
        "Time limit from a request's header to the head of its reply, including the queue";
    "timeouts.write" => timeouts_write: Duration = "30s", duration(100 * MILLISECOND, HOUR),
        "Time limit in which a client must read a part of a reply";
    "timeouts.slow" => timeouts_slow: Duration = "30s", duration(100 * MILLISECOND, HOUR),
        "Time over which a client has to reach limits.send_rate and limits.receive_rate on average";
    "timeouts.connection_age" => timeouts_connection_age: Option<Duration> = "1h",
        optional(duration(Duration::from_secs(1), YEAR)),
        "Maximum age of a connection, less a random tenth; off sets no limit";
    "timeouts.idle" => timeouts_idle: Duration = "75s", duration(100 * MILLISECOND, 24 * HOUR),
        "Time a connection may idle; longer than the gateway's upstream idle timeout";
    "timeouts.stall" => timeouts_stall: Duration = "1s", duration(10 * MILLISECOND, HOUR),
        "A handler that holds its lane for longer is logged and counted as a stall";
    "drain.settle" => drain_settle: Duration = "5s", duration(Duration::ZERO, HOUR),
        "Time after SIGTERM in which readiness fails and connections are still accepted";
    "drain.deadline" => drain_deadline: Duration = "30s", duration(Duration::ZERO, HOUR),
        "Maximum time from SIGTERM to exit";
    "drain.report" => drain_report: Duration = "5s", duration(100 * MILLISECOND, HOUR),
        "Interval at which a drain logs what its lanes wait for";
    "tls.certificate" => tls_certificate: Option<PathBuf> = "", file,
        "PEM file of the certificate chain for TLS; empty speaks plain HTTP";
    "tls.key" => tls_key: Option<PathBuf> = "", file,
        "PEM file of the certificate's private key";
    "tls.reload" => tls_reload: Duration = "10s", duration(100 * MILLISECOND, 24 * HOUR),
        "Interval at which the TLS files are checked; a changed certificate is loaded";
    "load_reports" => load_reports: LoadReports = "off", word::<LoadReports>,
        "Load reports (ORCA) to the gateway in replies: off, text or json";
    "request_ids" => request_ids: bool = "on", switch,
        "Whether each reply has the x-request-id of its request, or a new one: on or off";
    "plain_requests" => plain_requests: bool = "on", switch,
        "Whether plain HTTP/1.1 requests take the fast path: on or off";
    "static.root" => static_root: Option<PathBuf> = "", folder,
        "Folder served under /static/; empty serves none";
    "static.cache" => static_cache: u64 = "16MiB", size(0, 1 << 40),
        "Size of the cache of small files of each lane; 0 disables it";
    "static.cache_file" => static_cache_file: u64 = "64KiB", size(0, 16 << 20),
        "Maximum size of a cached file";
    "static.cache_control" => static_cache_control: Rules = "", word::<Rules>,
        "Cache-Control of files, as rules `pattern: value` separated by semicolons; the first match applies, otherwise no-cache";
    "work.max_ops" => work_max_ops: u64 = "100000000", number(0, 1_000_000_000_000),
        "Maximum iterations of /work?ops=N";
    "database.kind" => database_kind: DatabaseKind = "sqlite", word::<DatabaseKind>,
        "Database of projects: sqlite (a file) or postgres (a server)";
    "database.path" => database_path: Option<PathBuf> = "", file,
        "File of the SQLite database; empty serves no projects";
    "database.url" => database_url: String = "", text,
        "URL of the PostgreSQL database, such as postgres://user@host:5432/name; without a password";
    "database.password_file" => database_password_file: Option<PathBuf> = "", file,
        "File with the password of PostgreSQL, read at each connect; empty means none";
    "database.ca_file" => database_ca_file: Option<PathBuf> = "", file,
        "PEM file of the certificate authorities for PostgreSQL; empty disables verification";
    "database.connections" => database_connections: u64 = "4", number(1, 256),
        "Connections of each lane to the database";
    "database.queue" => database_queue: u64 = "256", number(1, 1_000_000),
        "Operations of a lane that may wait for the database; further ones are rejected with 503";
    "database.wait" => database_wait: Duration = "1s", duration(MILLISECOND, HOUR),
        "Time limit for a connection to the database; then 503";
    "database.connect_timeout" => database_connect_timeout: Duration = "3s", duration(100 * MILLISECOND, HOUR),
        "Time limit to connect to PostgreSQL";
    "database.statement_timeout" => database_statement_timeout: Duration = "5s", duration(100 * MILLISECOND, HOUR),
        "Time limit of a statement; then 503";
    "database.migrate" => database_migrate: bool = "on", switch,
        "Whether the server creates and migrates the tables of PostgreSQL: on or off";
    "auth.tokens" => auth_tokens: Option<PathBuf> = "", file,
        "File of the hashed bearer tokens that may write; empty disables writes";
    "auth.reload" => auth_reload: Duration = "1s", duration(100 * MILLISECOND, 24 * HOUR),
        "Interval at which the file of tokens is checked";
    "faults" => faults: bool = "off", switch,
        "Whether faults may be injected on the admin port: on or off";
    "otlp.endpoint" => otlp_endpoint: Option<Endpoint> = "", endpoint,
        "URL of the OTLP/HTTP collector of spans, such as http://127.0.0.1:4318; empty sends none";
    "otlp.ratio" => otlp_ratio: f64 = "0.01", ratio,
        "Share of requests without a trace that start one, from 0 to 1";
    "otlp.timeout" => otlp_timeout: Duration = "10s", duration(100 * MILLISECOND, HOUR),
        "Time limit to send spans";
    "log.level" => log_level: Level = "info", word::<Level>,
        "Level of the log: off, error, warn, info, debug or trace, and target=level for modules: info,corelane::request=debug";
    "log.format" => log_format: Format = "text", word::<Format>,
        "Format of log lines on standard error: text or json";
    "log.client" => log_client: bool = "off", switch,
        "Whether the log lines of requests have the client's address: on or off";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid() {
        Config::parse(&Settings::default()).expect("defaults parse");
    }

    #[test]
    fn keys_have_distinct_flags_and_variables() {
        let mut variables: Vec<_> = KEYS.iter().map(|key| key.variable(PROGRAM.prefix)).collect();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), KEYS.len());
        assert!(variables.contains(&"CORELANE_LIMITS_HEADER_BYTES".to_owned()));
        assert!(KEYS.iter().any(|key| key.flag() == "limits.header-bytes"));
    }
}
