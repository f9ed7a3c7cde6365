//! Flags and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use corelane_service::flags::{self, allowed};
use corelane_service::log::Format;
use corelane_service::value;

/// Environment variables with this prefix are settings.
const PREFIX: &str = "GATEWAY_AGENT_";

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Sidecar of Envoy in a gateway pod
#[derive(Debug, Parser)]
#[command(
    name = "gateway-agent",
    version,
    // A missing command is an error that says so.
    arg_required_else_help = false,
    after_help = "Flags take precedence over the environment."
)]
pub(crate) struct Settings {
    /// Format of log lines on standard error
    #[arg(long, global = true, env = "GATEWAY_AGENT_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Additional log file; in a preStop hook, /proc/1/fd/2 is the log of the container
    #[arg(long, global = true, env = "GATEWAY_AGENT_LOG_FILE", value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Drain(Drain),
    Endpoints(Endpoints),
}

/// Drain Envoy, and wait until no client needs it
///
/// Exit codes: 0 when Envoy may end, also when requests were cut at the deadline; 1 when Envoy's admin
/// interface did not answer; 64 for a bad flag or variable.
#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// Address of Envoy's admin interface
    #[arg(long, env = "GATEWAY_AGENT_ADMIN", value_name = "ADDRESS")]
    #[arg(default_value = "127.0.0.1:9901", value_parser = allowed(value::address))]
    pub(crate) admin: SocketAddr,
    /// Statistics prefix of a listener and of its HTTP connections; may be repeated
    #[arg(long = "listener", env = "GATEWAY_AGENT_LISTENER", value_name = "NAME")]
    #[arg(default_value = "ingress", value_delimiter = ',', value_parser = listener)]
    pub(crate) listeners: Vec<String>,
    /// Minimum time, until Services and load balancers send no more connections
    #[arg(long, env = "GATEWAY_AGENT_SETTLE", value_name = "DURATION", default_value = "15s")]
    #[arg(value_parser = allowed(value::duration(Duration::ZERO, HOUR)))]
    pub(crate) settle: Duration,
    /// Maximum time, including --settle, until all connections are closed
    #[arg(long, env = "GATEWAY_AGENT_DEADLINE", value_name = "DURATION", default_value = "45s")]
    #[arg(value_parser = allowed(value::duration(Duration::ZERO, HOUR)))]
    pub(crate) deadline: Duration,
}

/// Write Envoy's endpoints file from the EndpointSlices of a Service
///
/// Exit codes: 0 after SIGTERM or SIGINT; 1 when it cannot start; 64 for a bad flag or variable.
#[derive(Args, Debug)]
pub(crate) struct Endpoints {
    /// Configuration of the API client; without it, that of the pod
    #[arg(long, env = "GATEWAY_AGENT_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Namespace of the Service; empty: that of the pod or of the kubeconfig
    #[arg(long, env = "GATEWAY_AGENT_NAMESPACE", value_name = "NAME", default_value = "")]
    #[arg(value_parser = namespace)]
    pub(crate) namespace: String,
    /// Name of the Service
    #[arg(long, env = "GATEWAY_AGENT_SERVICE", value_name = "NAME")]
    #[arg(value_parser = name)]
    pub(crate) service: String,
    /// Port of requests: its name in the Service, or its number on the pods
    #[arg(long, env = "GATEWAY_AGENT_PORT", value_name = "NAME|NUMBER", default_value = "http")]
    #[arg(value_parser = port)]
    pub(crate) port: Port,
    /// Port of health checks: its name in the Service, or its number on the pods
    #[arg(long, env = "GATEWAY_AGENT_HEALTH_PORT", value_name = "NAME|NUMBER")]
    #[arg(default_value = "admin", value_parser = port)]
    pub(crate) health_port: Port,
    /// Envoy's name of the cluster
    #[arg(long, env = "GATEWAY_AGENT_CLUSTER", value_name = "NAME", default_value = "server")]
    #[arg(value_parser = name)]
    pub(crate) cluster: String,
    /// Endpoints file, in a folder that Envoy watches
    #[arg(long, env = "GATEWAY_AGENT_FILE", value_name = "FILE")]
    #[arg(default_value = "/run/corelane/endpoints.json")]
    pub(crate) file: PathBuf,
    /// Maximum number of endpoints; the rest is left out to bound memory
    #[arg(long, env = "GATEWAY_AGENT_LIMIT", value_name = "NUMBER", default_value = "5000")]
    #[arg(value_parser = allowed(value::number(1, 50_000)))]
    pub(crate) limit: u64,
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "GATEWAY_AGENT_LISTEN", value_name = "ADDRESS")]
    #[arg(default_value = "0.0.0.0:9903", value_parser = allowed(value::address))]
    pub(crate) listen: SocketAddr,
}

/// Reads the command line and the environment, or returns the exit code.
pub(crate) fn read() -> Result<Settings, ExitCode> {
    let settings: Settings = flags::parse(&[PREFIX])?;
    if let Command::Drain(Drain { settle, deadline, .. }) = &settings.command
        && settle > deadline
    {
        let message = format!(
            "--settle {settle:?} is longer than --deadline {deadline:?}; allowed is at most the deadline"
        );
        return Err(flags::reject(Settings::command(), message));
    }
    Ok(settings)
}

/// A name that can be part of a statistic, and needs no escape in a regular expression.
fn listener(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("allowed are letters, digits, _ and -"),
    }
}

/// A port of the Service, by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Name(String),
    Number(u16),
}

/// A namespace, or nothing.
fn namespace(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Ok(String::new()) } else { name(text) }
}

/// An RFC 1123 label, which can be part of a label selector and of a path.
fn name(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    match (1..=63).contains(&text.len()) && ends && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("allowed are up to 63 lower-case letters, digits and -, not at either end"),
    }
}

/// The name of a port (Kubernetes API, EndpointPort v1), or its number.
fn port(text: &str) -> Result<Port, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Port::Number(number)),
        _ if text.parse::<i64>().is_ok() => Err("allowed is a number from 1 to 65535, or a name"),
        _ => name(text).map(Port::Name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_consistent() {
        Settings::command().debug_assert();
    }

    #[test]
    fn listener_names_are_plain() {
        assert_eq!(listener("in-gress_1"), Ok("in-gress_1".to_owned()));
        for text in ["", "a.b", "a|b", "a&b"] {
            assert!(listener(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_numbers_or_names() {
        assert_eq!(port("8080"), Ok(Port::Number(8080)));
        assert_eq!(port("http"), Ok(Port::Name("http".to_owned())));
        for text in ["", "0", "65536", "-1", "Http", "a b"] {
            assert!(port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        assert_eq!(name("shop-server"), Ok("shop-server".to_owned()));
        for text in ["", "-a", "a-", "a,b", "A", &"a".repeat(64)] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
