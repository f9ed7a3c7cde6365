//! PostgreSQL settings, and the files read for each connection.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corelane::Lane;
use tokio_postgres::Config as Url;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::Tls;
use crate::config::Config;

/// Idle time before a connection is probed. Three unanswered probes close it (tcp(7)).
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Maximum time that sent data may stay unacknowledged (tcp(7)).
const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// Connection settings without secrets.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(super) hosts: Vec<Url>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// Connections per lane, including its slow lane's connection.
    pub(super) connections: usize,
    /// Maximum number of a lane's operations that may wait for a connection, and the maximum wait.
    pub(super) queue: usize,
    pub(super) wait: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) statement_timeout: Duration,
    pub(super) migrate: bool,
}

pub(super) struct Credentials {
    pub(super) password: Option<Vec<u8>>,
    pub(super) tls: Tls,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Settings {
    /// Settings of one service instance. Operations wait and do not compute, so a slow lane needs
    /// few connections.
    pub(crate) fn share_of(self: &Arc<Self>, lane: &Lane) -> Arc<Self> {
        let connections = match (lane.is_slow(), lane.instances() > lane.lanes()) {
            (true, _) => 1,
            (false, true) => (self.connections - 1).max(1),
            (false, false) => return Arc::clone(self),
        };
        Arc::new(Settings { connections, ..(**self).clone() })
    }

    /// The error explains the fix and never contains the URL.
    pub(crate) fn new(config: &Config, replica: &str) -> Result<Self, String> {
        let mut url = parse(&config.database_url)?;
        if config.database_ca_file.is_some() {
            if url.get_ssl_mode() == SslMode::Disable {
                return Err("database.ca_file checks certificates, and sslmode=disable of \
                            database.url means that there are none: remove one of them"
                    .to_owned());
            }
            // Certificate authorities make TLS mandatory.
            url.ssl_mode(SslMode::Require);
        }
        let mut hosts: Vec<_> = (0..url.get_hosts().len()).map(|host| only(&url, host)).collect();
        for host in &mut hosts {
            host.application_name(format!("corelane/{replica}"))
                .target_session_attrs(TargetSessionAttrs::ReadWrite)
                .connect_timeout(config.database_connect_timeout)
                .tcp_user_timeout(UNACKNOWLEDGED)
                .keepalives_idle(KEEPALIVE_IDLE)
                .keepalives_interval(KEEPALIVE_INTERVAL)
                .keepalives_retries(KEEPALIVE_RETRIES);
        }
        Ok(Settings {
            hosts,
            password_file: config.database_password_file.clone(),
            ca_file: config.database_ca_file.clone(),
            connections: config.database_connections as usize,
            queue: config.database_queue as usize,
            wait: config.database_wait,
            connect_timeout: config.database_connect_timeout,
            statement_timeout: config.database_statement_timeout,
            migrate: config.database_migrate,
        })
    }

    /// Reads the files, which may have changed since the last connection. Blocks.
    pub(super) fn credentials(&self) -> Result<Credentials, String> {
        let read = |key: &str, path: &Path| {
            std::fs::read(path).map_err(|error| unreadable(key, path, &error))
        };
        let password = match &self.password_file {
            Some(path) => Some(without_line_end(read("database.password_file", path)?)),
            None => None,
        };
        let tls = match &self.ca_file {
            Some(path) => Tls::verifying(&read("database.ca_file", path)?)
                .map_err(|problem| format!("database.ca_file = {}: {problem}", path.display()))?,
            None => Tls::trusting(),
        };
        Ok(Credentials { password, tls })
    }
}

fn unreadable(key: &str, path: &Path, error: &io::Error) -> String {
    format!("{key} = {} cannot be read: {error}", path.display())
}

/// Removes the line feed that editors and `echo` add, which is not part of the password.
fn without_line_end(mut text: Vec<u8>) -> Vec<u8> {
    if text.last() == Some(&b'\n') {
        text.pop();
        if text.last() == Some(&b'\r') {
            text.pop();
        }
    }
    text
}

fn parse(url: &str) -> Result<Url, String> {
    const FORM: &str = "database.url: expected an address such as \
                        postgres://user@host:5432/name?sslmode=require";
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(FORM.to_owned());
    }
    // The parser's error may quote part of a password that is not percent-encoded.
    let parsed: Url =
        url.parse().map_err(|_| format!("{FORM}; it cannot be read, or has an unknown option"))?;
    if parsed.get_password().is_some() {
        return Err("database.url has a password: write it into the file that \
                    database.password_file names"
            .to_owned());
    }
    let (hosts, ports) = (parsed.get_hosts().len(), parsed.get_ports().len());
    if hosts == 0 || !parsed.get_hostaddrs().is_empty() || (ports > 1 && ports != hosts) {
        return Err(format!("{FORM}; with a host, or several as host:port,host:port"));
    }
    Ok(parsed)
}

/// The URL with only one of its hosts, so that a host that hangs does not use up the other hosts'
/// time.
fn only(url: &Url, index: usize) -> Url {
    let mut one = Url::new();
    match &url.get_hosts()[index] {
        Host::Tcp(name) => one.host(name),
        Host::Unix(folder) => one.host_path(folder),
    };
    let ports = url.get_ports();
    if let Some(port) = ports.get(index).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = url.get_user() {
        one.user(user);
    }
    if let Some(name) = url.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = url.get_options() {
        one.options(options);
    }
    one.ssl_mode(url.get_ssl_mode())
        .ssl_negotiation(url.get_ssl_negotiation())
        .channel_binding(url.get_channel_binding())
        .keepalives(url.get_keepalives());
    one
}

pub(super) fn name(host: &Url) -> String {
    let port = host.get_ports().first().unwrap_or(&5432);
    match host.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("{name}:{port}"),
        Some(Host::Unix(folder)) => format!("{}:{port}", folder.display()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_stands_alone() {
        let url = parse("postgres://me@one:1,two:2/db?sslmode=require&options=-cwork_mem%3D8MB");
        let url = url.expect("a URL");
        let hosts: Vec<_> = (0..2).map(|host| only(&url, host)).collect();
        assert_eq!(hosts.iter().map(name).collect::<Vec<_>>(), ["one:1", "two:2"]);
        for host in &hosts {
            assert_eq!((host.get_user(), host.get_dbname()), (Some("me"), Some("db")));
            assert_eq!(host.get_options(), Some("-cwork_mem=8MB"));
            assert_eq!(host.get_ssl_mode(), SslMode::Require);
        }
        let one_port = parse("postgres://one,two/db").expect("a URL");
        assert_eq!(name(&only(&one_port, 1)), "two:5432");
        let socket = parse("postgres://%2Frun%2Fpg/db").expect("a URL");
        assert_eq!(name(&only(&socket, 0)), "/run/pg:5432");
    }

    #[test]
    fn a_password_ends_before_its_line_does() {
        for text in ["secret", "secret\n", "secret\r\n"] {
            assert_eq!(without_line_end(text.into()), b"secret");
        }
        assert_eq!(without_line_end("secret\n\n".into()), b"secret\n");
        assert_eq!(without_line_end(" \r".into()), b" \r");
    }
}
