//! Flags of `endpoints`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};

use super::{address, value};
use crate::endpoints::{Endpoints, Port, Ports};

/// What the flags say.
pub(super) fn read(flags: &ArgMatches) -> Endpoints {
    Endpoints {
        kubeconfig: flags.get_one("kubeconfig").cloned(),
        namespace: value(flags, "namespace"),
        service: value(flags, "service"),
        ports: Ports { traffic: value(flags, "port"), health: value(flags, "health-port") },
        cluster: value(flags, "cluster"),
        file: value(flags, "file"),
        limit: value::<u64>(flags, "limit") as usize,
        listen: value(flags, "listen"),
    }
}

/// The command line of `endpoints`.
pub(super) fn command() -> clap::Command {
    clap::Command::new("endpoints")
        .about("Keep a file of Envoy's endpoints as the EndpointSlices of a Service say")
        .long_about(
            "Keep a file of Envoy's endpoints as the EndpointSlices of a Service say. \
             Exit codes: 0 after SIGTERM or SIGINT; 1 when it cannot begin; \
             64 for a bad flag or variable.",
        )
        .args(where_from())
        .args(where_to())
}

fn where_from() -> [Arg; 5] {
    let kubeconfig = Arg::new("kubeconfig")
        .long("kubeconfig")
        .env("GATEWAY_AGENT_KUBECONFIG")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("How to reach the API server; without it, as a pod does");
    let namespace = Arg::new("namespace")
        .long("namespace")
        .env("GATEWAY_AGENT_NAMESPACE")
        .value_name("NAME")
        .default_value("")
        .value_parser(|text: &str| if text.is_empty() { Ok(String::new()) } else { name(text) })
        .help("Namespace of the Service; empty: the pod's own, or that of the kubeconfig");
    let service = Arg::new("service")
        .long("service")
        .env("GATEWAY_AGENT_SERVICE")
        .value_name("NAME")
        .required(true)
        .value_parser(name)
        .help("The Service");
    let traffic = Arg::new("port")
        .long("port")
        .env("GATEWAY_AGENT_PORT")
        .value_name("NAME|NUMBER")
        .default_value("http")
        .value_parser(port)
        .help("Port of requests: as the Service names it, or its number on the pods");
    let health = Arg::new("health-port")
        .long("health-port")
        .env("GATEWAY_AGENT_HEALTH_PORT")
        .value_name("NAME|NUMBER")
        .default_value("admin")
        .value_parser(port)
        .help("Port of health checks, in the same way");
    [kubeconfig, namespace, service, traffic, health]
}

fn where_to() -> [Arg; 4] {
    let cluster = Arg::new("cluster")
        .long("cluster")
        .env("GATEWAY_AGENT_CLUSTER")
        .value_name("NAME")
        .default_value("server")
        .value_parser(name)
        .help("Envoy's name of the cluster");
    let file = Arg::new("file")
        .long("file")
        .env("GATEWAY_AGENT_FILE")
        .value_name("FILE")
        .default_value("/run/corelane/endpoints.json")
        .value_parser(value_parser!(PathBuf))
        .help("The file, in a folder that Envoy watches");
    let limit = Arg::new("limit")
        .long("limit")
        .env("GATEWAY_AGENT_LIMIT")
        .value_name("NUMBER")
        .default_value("5000")
        .value_parser(corelane_service::number(1, 50_000))
        .help("Most endpoints; more are left out, and memory stays bounded");
    let listen = Arg::new("listen")
        .long("listen")
        .env("GATEWAY_AGENT_LISTEN")
        .value_name("ADDRESS")
        .default_value("0.0.0.0:9903")
        .value_parser(address)
        .help("Where /healthz, /readyz and /metrics are");
    [cluster, file, limit, listen]
}

/// A name of Kubernetes (RFC 1123 label), which suits a label selector and a path.
fn name(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !text.starts_with('-') && !text.ends_with('-');
    match (1..=63).contains(&text.len()) && ends && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("allowed are up to 63 lower-case letters, digits and -, not at either end"),
    }
}

/// Names of ports are short (Kubernetes API, EndpointPort v1), and never numbers.
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
