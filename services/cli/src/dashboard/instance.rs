//! An instance of the local platform: reads the addresses that `up` wrote and signals its replicas.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::http::exchange;
use http_body_util::Full;
use hyper::header::{CONNECTION, HOST};
use hyper::{Method, Request, Response};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Request timeout, so that one hung process does not hide the other processes.
const LIMIT: Duration = Duration::from_secs(2);

const GROUP: &str = "corelane";

/// Process names and loopback ports. `hack/local` writes this file when the instance is ready.
#[derive(Debug, Deserialize)]
pub(super) struct Topology {
    pub(super) gateway_port: u16,
    pub(super) envoy_admin_port: u16,
    pub(super) prometheus_port: u16,
    pub(super) replicas: Vec<Replica>,
    pub(super) services: Vec<Service>,
}

impl Topology {
    pub(super) fn chassis(&self, replica: &Replica) -> bool {
        self.services.iter().any(|service| service.name == replica.service && service.chassis())
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) cpu: usize,
    pub(super) port: u16,
    pub(super) admin_port: u16,
    pub(super) service: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Service {
    pub(super) name: String,
    runtime: String,
}

impl Service {
    fn chassis(&self) -> bool {
        self.runtime == "corelane"
    }
}

#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    supervisor: PathBuf,
}

impl Instance {
    pub(super) fn new(folder: PathBuf, supervisor: PathBuf) -> Self {
        Instance { folder, supervisor }
    }

    pub(super) fn name(&self) -> String {
        let absolute = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        absolute.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Running processes; empty while the instance is starting.
    pub(super) fn topology(&self) -> Result<Topology, String> {
        let file = self.folder.join("topology.json");
        let text = std::fs::read(&file).map_err(|_| {
            format!("nothing is up in {}, or it is still starting", self.folder.display())
        })?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Signals a replica through supervisord, which signals only its own child and then restarts
    /// it. Therefore, a signal never reaches a process that has reused the ID.
    pub(super) async fn signal(&self, replica: &str, signal: &str) -> Result<(), String> {
        let body = format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>supervisor.signalProcess</methodName><params>\
             <param><value><string>{GROUP}:{replica}</string></value></param>\
             <param><value><string>{signal}</string></value></param></params></methodCall>"
        );
        let reply = timeout(LIMIT, self.ask(&body)).await;
        let reply = reply.map_err(|_| "supervisord does not reply".to_owned())?;
        let reply = reply.map_err(|error| format!("supervisord does not reply: {error}"))?;
        match reply.contains("<boolean>1</boolean>") {
            true => Ok(()),
            false => Err(format!("{replica} does not run: wait until it is back")),
        }
    }

    /// XML-RPC over HTTP/1.0, in which closing the connection ends the response.
    async fn ask(&self, body: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(&self.supervisor).await?;
        let head = format!(
            "POST /RPC2 HTTP/1.0\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        Ok(reply)
    }
}

pub(super) async fn call(
    port: u16,
    method: Method,
    path: &str,
    body: String,
) -> Result<Response<Bytes>, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let request = Request::builder().method(method).uri(path);
    let request = request.header(HOST, address.to_string()).header(CONNECTION, "close");
    let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
    let reply = timeout(LIMIT, exchange(address, request)).await;
    let reply = reply.map_err(|_| format!("port {port} does not reply"))?;
    reply.map_err(|error| error.to_string())
}

/// JSON body of a 200 response.
pub(super) async fn json(port: u16, path: &str) -> Option<serde_json::Value> {
    let reply = call(port, Method::GET, path, String::new()).await.ok()?;
    let read = || serde_json::from_slice(reply.body()).ok();
    reply.status().is_success().then(read).flatten()
}
