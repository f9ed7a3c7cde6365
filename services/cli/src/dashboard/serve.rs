//! Serves the page.
//!
//! Guards against other origins: the server answers only requests addressed to a loopback name, and
//! actions need a token that only the page has.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use corelane_service::http::serve_requests;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::net::TcpListener;

use super::instance::Instance;
use super::load::Load;
use super::state;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

const PLACE: &str = "{{token}}";

/// Request header for actions. A script from another origin would need a preflight request to set
/// it.
const TOKEN: &str = "corelane-token";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Reply = Response<Full<Bytes>>;

struct Dashboard {
    token: String,
    instance: Instance,
    load: Arc<Load>,
    started: Instant,
}

pub(super) async fn serve(
    address: SocketAddr,
    instance: Instance,
    load: Arc<Load>,
) -> io::Result<Infallible> {
    let listener = TcpListener::bind(address).await?;
    let dashboard = Dashboard { token: token()?, instance, load, started: Instant::now() };
    let dashboard = Arc::new(dashboard);
    let answer = move |request| {
        let dashboard = Arc::clone(&dashboard);
        async move { dashboard.answer(request).await }
    };
    Ok(serve_requests(listener, answer).await)
}

fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Dashboard {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if !names_loopback(&request) {
            return problem(StatusCode::FORBIDDEN, "the Host must name the loopback address");
        }
        match *request.method() {
            Method::GET | Method::HEAD => self.show(request.uri().path()).await,
            Method::POST => self.act(&request).await,
            _ => not_allowed("GET, HEAD, POST"),
        }
    }

    async fn show(&self, path: &str) -> Reply {
        match path {
            "/" => reply(StatusCode::OK, "text/html", PAGE.replace(PLACE, &self.token)),
            "/page.css" => reply(StatusCode::OK, "text/css", STYLE.to_owned()),
            "/page.js" => reply(StatusCode::OK, "text/javascript", SCRIPT.to_owned()),
            "/state" => match state::read(&self.instance, &self.load, self.started).await {
                Ok(state) => reply(StatusCode::OK, "application/json", state.to_string()),
                Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, &error),
            },
            path if action(path).is_some() => not_allowed("POST"),
            _ => problem(StatusCode::NOT_FOUND, "no such page"),
        }
    }

    async fn act(&self, request: &Request<Incoming>) -> Reply {
        let Some(action) = action(request.uri().path()) else {
            return problem(StatusCode::NOT_FOUND, "no such action");
        };
        if request.headers().get(TOKEN).is_none_or(|token| token != self.token.as_str()) {
            return problem(StatusCode::FORBIDDEN, "the token is not that of this page: reload it");
        }
        match self.perform(action).await {
            Ok(()) => reply(StatusCode::NO_CONTENT, "text/plain", String::new()),
            Err(error) => problem(StatusCode::CONFLICT, &error),
        }
    }

    async fn perform(&self, action: Action<'_>) -> Result<(), String> {
        let topology = self.instance.topology()?;
        let (name, deed) = match action {
            Action::Start => {
                self.load.start(topology.gateway_port);
                return Ok(());
            }
            Action::Stop => {
                self.load.stop();
                return Ok(());
            }
            Action::Replica(name, deed) => (name, deed),
        };
        let replica = topology.replicas.iter().find(|replica| replica.name == name);
        let replica = replica.ok_or_else(|| format!("no replica {name}"))?;
        match deed {
            "kill" => self.instance.signal(name, "KILL").await,
            "drain" => self.instance.signal(name, "TERM").await,
            deed => state::delay(&topology, replica, deed == "delay").await,
        }
    }
}

#[derive(Debug, PartialEq)]
enum Action<'a> {
    Start,
    Stop,
    Replica(&'a str, &'a str),
}

fn action(path: &str) -> Option<Action<'_>> {
    match path {
        "/load/start" => return Some(Action::Start),
        "/load/stop" => return Some(Action::Stop),
        _ => {}
    }
    let (name, deed) = path.strip_prefix("/replicas/")?.split_once('/')?;
    let known = ["kill", "drain", "delay", "undelay"].contains(&deed);
    known.then_some(Action::Replica(name, deed))
}

/// True if the client addressed the server by a loopback name. DNS rebinding could resolve any
/// other name to 127.0.0.1 and give this page that name's origin.
fn names_loopback<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    let (Some(host), None) = (host, hosts.next()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn problem(status: StatusCode, detail: &str) -> Reply {
    let body = json!({"status": status.as_u16(), "detail": detail}).to_string();
    reply(status, "application/problem+json", body)
}

fn not_allowed(methods: &'static str) -> Reply {
    let mut reply =
        problem(StatusCode::METHOD_NOT_ALLOWED, &format!("the method must be {methods}"));
    reply.headers_mut().insert(ALLOW, methods.parse().expect("a list of methods"));
    reply
}

fn reply(status: StatusCode, media_type: &'static str, body: String) -> Reply {
    let reply = Response::builder().status(status);
    let reply = reply.header(CONTENT_TYPE, format!("{media_type}; charset=utf-8"));
    let reply = reply.header(CONTENT_SECURITY_POLICY, POLICY).header(CACHE_CONTROL, "no-store");
    let reply = reply.header("x-content-type-options", "nosniff");
    let reply = reply.header("cross-origin-resource-policy", "same-origin");
    let reply = reply.header("referrer-policy", "no-referrer");
    reply.body(Full::from(body)).expect("the parts are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        let names = |hosts: &[&str]| {
            let request =
                hosts.iter().fold(Request::builder(), |all, host| all.header(HOST, *host));
            names_loopback(&request.body(()).expect("valid"))
        };
        for host in ["127.0.0.1:8070", "localhost:8070", "LOCALHOST", "[::1]:8070", "[::1]"] {
            assert!(names(&[host]), "{host}");
        }
        for host in
            ["", "example.org", "localhost.example.org:8070", "127.0.0.1.nip.io", "[::1", "::1"]
        {
            assert!(!names(&[host]), "{host}");
        }
        assert!(!names(&[]));
        assert!(!names(&["localhost", "example.org"]));
    }

    #[test]
    fn actions_have_paths() {
        assert_eq!(action("/load/start"), Some(Action::Start));
        assert_eq!(action("/replicas/server-0/kill"), Some(Action::Replica("server-0", "kill")));
        for path in
            ["/", "/load", "/replicas/server-0", "/replicas/server-0/stop", "/replicas/a/b/kill"]
        {
            assert_eq!(action(path), None, "{path}");
        }
    }
}
