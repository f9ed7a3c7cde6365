//! Flags and environment variables.

use std::collections::HashSet;
use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use corelane_service::flags::{self, allowed};
use corelane_service::log::Format;
use corelane_service::value;

const PREFIX: &str = "GATEWAY_AGENT_";

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Envoy's sidecar in a gateway pod
#[derive(Debug, Parser)]
#[command(
    name = "gateway-agent",
    version,
    // A missing command must be reported as an error.
    arg_required_else_help = false,
    after_help = "Flags take precedence over the environment."
)]
pub(crate) struct Settings {
    /// Format of log lines on standard error
    #[arg(long, global = true, env = "GATEWAY_AGENT_LOG_FORMAT", default_value = "text")]
    pub(crate) log_format: Format,
    /// Additional log file; in a preStop hook, /proc/1/fd/2 is the container's log
    #[arg(long, global = true, env = "GATEWAY_AGENT_LOG_FILE", value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Drain(Drain),
    Endpoints(Box<Endpoints>),
}

/// Drain Envoy and wait until no client needs it
///
/// Exit codes: 0 if Envoy may exit, even if the deadline cut requests; 1 if Envoy's admin interface
/// did not respond; 64 for a bad flag or variable.
#[derive(Args, Debug)]
pub(crate) struct Drain {
    /// Address of Envoy's admin interface
    #[arg(long, env = "GATEWAY_AGENT_ADMIN", value_name = "ADDRESS")]
    #[arg(default_value = "127.0.0.1:9901", value_parser = allowed(value::address))]
    pub(crate) admin: SocketAddr,
    /// Statistics prefix of a listener and its HTTP connections; may be repeated
    #[arg(long = "listener", env = "GATEWAY_AGENT_LISTENER", value_name = "NAME")]
    #[arg(default_value = "ingress", value_delimiter = ',', value_parser = listener)]
    pub(crate) listeners: Vec<String>,
    /// Minimum time for Services and load balancers to stop sending connections
    #[arg(long, env = "GATEWAY_AGENT_SETTLE", value_name = "DURATION", default_value = "15s")]
    #[arg(value_parser = allowed(value::duration(Duration::ZERO, HOUR)))]
    pub(crate) settle: Duration,
    /// Maximum time, including --settle, until all connections are closed
    #[arg(long, env = "GATEWAY_AGENT_DEADLINE", value_name = "DURATION", default_value = "45s")]
    #[arg(value_parser = allowed(value::duration(Duration::ZERO, HOUR)))]
    pub(crate) deadline: Duration,
}

/// Write Envoy's endpoint files from the EndpointSlices of Services
///
/// Exit codes: 0 after SIGTERM or SIGINT; 1 if it cannot start; 64 for a bad flag or variable.
#[derive(Args, Debug)]
pub(crate) struct Endpoints {
    /// Kubernetes API configuration [default: the pod's]
    #[arg(long, env = "GATEWAY_AGENT_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Envoy cluster and its Service; may be repeated
    ///
    /// NAMESPACE defaults to the namespace of the pod or kubeconfig. PORT receives requests, and
    /// HEALTH-PORT receives health checks: a port name of the Service, a port number of the pods,
    /// or `*` for the only port. HEALTH-PORT defaults to the `admin` port if the Service has one,
    /// otherwise to PORT.
    #[arg(long = "service", env = "GATEWAY_AGENT_SERVICES", required_unless_present = "routes")]
    #[arg(value_name = "CLUSTER=[NAMESPACE/]NAME:PORT[:HEALTH-PORT]")]
    #[arg(value_delimiter = ',', value_parser = service)]
    pub(crate) services: Vec<Service>,
    /// ConfigMap with Envoy's routes and clusters, which name the services in place of --service
    ///
    /// Changes are applied to the running Envoy. NAMESPACE defaults to the namespace of the pod or
    /// kubeconfig.
    #[arg(long, env = "GATEWAY_AGENT_ROUTES", value_name = "[NAMESPACE/]NAME")]
    #[arg(value_parser = object, conflicts_with = "services")]
    pub(crate) routes: Option<ObjectName>,
    /// Service of the gateways, which share rate limits; its endpoints go to gateways.json, except terminating ones
    #[arg(long, env = "GATEWAY_AGENT_GATEWAYS", value_name = "[NAMESPACE/]NAME:PORT")]
    #[arg(value_parser = gateways)]
    pub(crate) gateways: Option<Service>,
    /// Description of Envoy's filters whose credentials are in mounted Secrets
    #[arg(long, env = "GATEWAY_AGENT_CREDENTIALS", value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// Admin address of the Envoy that uses the routes
    #[arg(long, env = "GATEWAY_AGENT_ENVOY_ADMIN", value_name = "ADDRESS")]
    #[arg(default_value = "127.0.0.1:9901", value_parser = allowed(value::address))]
    pub(crate) envoy_admin: SocketAddr,
    #[command(flatten)]
    pub(crate) objects: Objects,
    /// Folder that Envoy reads; each cluster's file is CLUSTER.json
    #[arg(long, env = "GATEWAY_AGENT_FOLDER", value_name = "FOLDER")]
    #[arg(default_value = "/run/corelane")]
    pub(crate) folder: PathBuf,
    /// Maximum endpoints per service, to bound memory; the rest are left out
    #[arg(long, env = "GATEWAY_AGENT_LIMIT", value_name = "NUMBER", default_value = "5000")]
    #[arg(value_parser = allowed(value::number(1, 50_000)))]
    pub(crate) limit: u64,
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "GATEWAY_AGENT_LISTEN", value_name = "ADDRESS")]
    #[arg(default_value = "0.0.0.0:9903", value_parser = allowed(value::address))]
    pub(crate) listen: SocketAddr,
}

/// Gateway API objects that add routes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Objects {
    /// Gateway whose HTTPRoutes and GRPCRoutes are served in addition to the ConfigMap's routes
    ///
    /// The agent writes the status of these objects. NAMESPACE defaults to the namespace of the pod
    /// or kubeconfig.
    #[arg(long, env = "GATEWAY_AGENT_GATEWAY", value_name = "[NAMESPACE/]NAME")]
    #[arg(value_parser = object, requires = "routes")]
    pub(crate) gateway: Option<ObjectName>,
    /// The gateway's Service in the same namespace; its addresses become the Gateway's addresses
    #[arg(long, env = "GATEWAY_AGENT_GATEWAY_SERVICE", value_name = "NAME")]
    #[arg(value_parser = allowed(name), requires = "gateway")]
    pub(crate) gateway_service: Option<String>,
    /// Port of HTTP listeners; without it, HTTP is disabled
    #[arg(
        long,
        env = "GATEWAY_AGENT_GATEWAY_HTTP_PORT",
        value_name = "PORT",
        requires = "gateway"
    )]
    #[arg(value_parser = allowed(value::number(1, 65_535)))]
    pub(crate) gateway_http_port: Option<u64>,
    /// Port of HTTPS listeners; without it, HTTPS is disabled
    #[arg(
        long,
        env = "GATEWAY_AGENT_GATEWAY_HTTPS_PORT",
        value_name = "PORT",
        requires = "gateway"
    )]
    #[arg(value_parser = allowed(value::number(1, 65_535)))]
    pub(crate) gateway_https_port: Option<u64>,
    /// Secret whose certificate Envoy reads from a mounted folder; the agent reads all Secrets
    /// except this one
    #[arg(long, env = "GATEWAY_AGENT_GATEWAY_SECRET", value_name = "NAME", requires = "gateway")]
    pub(crate) gateway_secret: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectName {
    /// `None` means the namespace of the pod or kubeconfig.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The cluster of the gateways themselves. Clusters of routes have a hyphen in their names.
pub(crate) const GATEWAYS: &str = "gateways";

/// Files for Envoy that are neither routes nor endpoints of routes.
pub(crate) const OTHER_FILES: [&str; 3] = [GATEWAYS, "corelane.api_keys", "corelane.basic_auth"];

/// Default port for health checks, if the Service has it.
pub(crate) const HEALTH: &str = "admin";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) cluster: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) port: Port,
    /// `None` means the `admin` port if there is one, otherwise the request port.
    pub(crate) health_port: Option<Port>,
}

impl Display for Service {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Self { cluster, namespace, name, .. } = self;
        match namespace {
            Some(namespace) => write!(to, "{cluster} ({namespace}/{name})"),
            None => write!(to, "{cluster} ({name})"),
        }
    }
}

pub(crate) fn read() -> Result<Settings, ExitCode> {
    let settings: Settings = flags::parse(&[PREFIX])?;
    if let Command::Drain(Drain { settle, deadline, .. }) = &settings.command
        && settle > deadline
    {
        let message = format!("--settle {settle:?} must not exceed --deadline {deadline:?}");
        return Err(flags::reject(Settings::command(), message));
    }
    if let Command::Endpoints(endpoints) = &settings.command
        && let Some(cluster) = twice(&endpoints.services)
    {
        let message = format!(
            "--service: the cluster {cluster} is given twice; expected one Service per cluster"
        );
        return Err(flags::reject(Settings::command(), message));
    }
    Ok(settings)
}

fn twice(services: &[Service]) -> Option<&str> {
    let mut seen = HashSet::new();
    services.iter().map(|it| it.cluster.as_str()).find(|cluster| !seen.insert(*cluster))
}

/// The name becomes part of a statistic and must need no escape in a regular expression.
fn listener(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("expected letters, digits, _ and -"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Name(String),
    Number(u16),
    /// The only port, which may be unnamed.
    Only,
}

impl Display for Port {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => to.write_str(name),
            Self::Number(number) => write!(to, "{number}"),
            Self::Only => to.write_str("*"),
        }
    }
}

fn object(text: &str) -> Result<ObjectName, String> {
    let part = |of: &'static str| move |allowed: &str| format!("{of}: {allowed}");
    let (namespace, rest) = namespaced(text);
    Ok(ObjectName {
        namespace: namespace.map(name).transpose().map_err(part("NAMESPACE"))?,
        name: name(rest).map_err(part("NAME"))?,
    })
}

fn namespaced(text: &str) -> (Option<&str>, &str) {
    match text.split_once('/') {
        Some((namespace, rest)) => (Some(namespace), rest),
        None => (None, text),
    }
}

pub(crate) fn service(text: &str) -> Result<Service, String> {
    let form = "expected CLUSTER=[NAMESPACE/]NAME:PORT[:HEALTH-PORT]";
    let (cluster, rest) = text.split_once('=').ok_or_else(|| format!("no CLUSTER; {form}"))?;
    let (namespace, rest) = namespaced(rest);
    let (service, ports) = rest.split_once(':').ok_or_else(|| format!("no PORT; {form}"))?;
    let (traffic, health) = match ports.split_once(':') {
        Some((traffic, health)) => (traffic, Some(health)),
        None => (ports, None),
    };
    let part = |of: &'static str| move |allowed: &str| format!("{of}: {allowed}");
    Ok(Service {
        cluster: cluster_name(cluster).map_err(part("CLUSTER"))?,
        namespace: namespace.map(name).transpose().map_err(part("NAMESPACE"))?,
        name: name(service).map_err(part("NAME"))?,
        port: port(traffic).map_err(part("PORT"))?,
        health_port: health.map(port).transpose().map_err(part("HEALTH-PORT"))?,
    })
}

/// Parses `[NAMESPACE/]NAME:PORT`, the Service of the gateways.
fn gateways(text: &str) -> Result<Service, String> {
    service(&format!("{GATEWAYS}={text}"))
}

/// Accepts an RFC 1123 label, which is safe in label selectors, paths and file names.
fn name(text: &str) -> Result<String, &'static str> {
    match plain(text, 63, "-") {
        true => Ok(text.to_owned()),
        false => Err("expected up to 63 lower-case letters, digits and -, not at either end"),
    }
}

fn cluster_name(text: &str) -> Result<String, &'static str> {
    match plain(text, 200, "-_") {
        true => Ok(text.to_owned()),
        false => {
            Err("expected up to 200 lower-case letters, digits, - and _, these not at either end")
        }
    }
}

fn plain(text: &str, longest: usize, within: &str) -> bool {
    let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = text.starts_with(simple) && text.ends_with(simple);
    ends && text.len() <= longest && text.chars().all(|c| simple(c) || within.contains(c))
}

fn port(text: &str) -> Result<Port, &'static str> {
    match text.parse() {
        Ok(number @ 1..) => Ok(Port::Number(number)),
        _ if text == "*" => Ok(Port::Only),
        _ if text.parse::<i64>().is_ok() => Err("expected a number from 1 to 65535, or a name"),
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
        assert_eq!(port("*"), Ok(Port::Only));
        for text in ["", "0", "65536", "-1", "Http", "a b"] {
            assert!(port(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_service_has_a_cluster_and_a_port_at_least() {
        let named = |text: &str| Port::Name(text.to_owned());
        let bare = Service {
            cluster: "pages".to_owned(),
            namespace: None,
            name: "web".to_owned(),
            port: named("http"),
            health_port: None,
        };
        assert_eq!(service("pages=web:http"), Ok(bare.clone()));
        let whole = Service {
            namespace: Some("shop".to_owned()),
            port: Port::Number(8080),
            health_port: Some(named("admin")),
            ..bare
        };
        assert_eq!(service("pages=shop/web:8080:admin"), Ok(whole));
    }

    #[test]
    fn the_part_of_a_service_that_is_wrong_is_named() {
        for (text, words) in [
            ("web:http", "no CLUSTER; expected CLUSTER=[NAMESPACE/]NAME:PORT"),
            ("pages=web", "no PORT; expected CLUSTER=[NAMESPACE/]NAME:PORT"),
            ("Pages=web:http", "CLUSTER: expected up to 200"),
            ("../pages=web:http", "CLUSTER: expected up to 200"),
            ("pages=/web:http", "NAMESPACE: expected up to 63"),
            ("pages=shop/a/b:http", "NAME: expected up to 63"),
            ("pages=shop/:http", "NAME: expected up to 63"),
            ("pages=web:", "PORT: expected up to 63"),
            ("pages=web:0", "PORT: expected a number from 1 to 65535, or a name"),
            ("pages=web:http:0", "HEALTH-PORT: expected a number from 1 to 65535, or a name"),
            ("pages=web:http:admin:1", "HEALTH-PORT: expected up to 63"),
        ] {
            let error = service(text).expect_err(text);
            assert!(error.starts_with(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_cluster_given_twice_is_found() {
        let all = |texts: &[&str]| -> Vec<_> {
            texts.iter().map(|text| service(text).expect("a service")).collect()
        };
        assert_eq!(twice(&all(&["a=web:http", "b=web:http"])), None);
        assert_eq!(twice(&all(&["a=web:http", "b=web:http", "a=pages:http"])), Some("a"));
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        assert_eq!(name("shop-server"), Ok("shop-server".to_owned()));
        for text in ["", "-a", "a-", "a,b", "A", &"a".repeat(64)] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
