//! The load that the page starts: GET requests through the gateway at a fixed rate, with a limited
//! duration and number.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

/// Total requests per second across all clients, low enough for an unoptimised build on a shared
/// CPU.
const RATE: u32 = 200;

const LASTS: Duration = Duration::from_secs(60);

/// Number of connections. The rate is sustained as long as responses take at most `CLIENTS / RATE`.
const CLIENTS: u32 = 64;

/// The gateway has the same time limit, and responds itself if a replica does not respond within
/// it.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum age of the responses behind the quantiles.
const RECENT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Load {
    paths: Vec<String>,
    run: Mutex<Run>,
}

#[derive(Debug, Default)]
struct Run {
    /// Incremented at each start, which stops the clients of an older load.
    number: u64,
    /// `None` while no load is running.
    ends: Option<Instant>,
    sent: u32,
    failed: u32,
    /// Responses and failed requests since the start.
    ended: u32,
    failure: Option<String>,
    recent: VecDeque<(Instant, Duration)>,
}

impl Load {
    pub(super) fn new(paths: Vec<String>) -> Self {
        Load { paths, run: Mutex::default() }
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(self: &Arc<Self>, gateway: u16) {
        let begun = Instant::now();
        let mut run = self.run();
        if run.ends.is_some_and(|ends| begun < ends) {
            return;
        }
        *run = Run { number: run.number + 1, ends: Some(begun + LASTS), ..Run::default() };
        for index in 0..CLIENTS {
            let client = Client { load: Arc::clone(self), number: run.number, gateway };
            tokio::spawn(client.run(begun + index * Duration::from_secs(1) / RATE));
        }
    }

    pub(super) fn stop(&self) {
        self.run().ends = None;
    }

    /// Results since the load began.
    pub(super) fn view(&self) -> Value {
        let now = Instant::now();
        let mut run = self.run();
        run.forget(now);
        let mut recent: Vec<_> = run.recent.iter().map(|(_, took)| *took).collect();
        recent.sort_unstable();
        let quantile = |share: f64| {
            let index = (recent.len() as f64 * share) as usize;
            recent.get(index).map(|took| took.as_secs_f64() * 1e3)
        };
        let left = run.ends.map(|ends| ends.saturating_duration_since(now).as_secs_f64());
        json!({
            "number": run.number,
            "left": left.filter(|left| *left > 0.0),
            "lasts": LASTS.as_secs(),
            "rate": RATE,
            "sent": run.sent,
            "ended": run.ended,
            "failed": run.failed,
            "failure": run.failure,
            "p50": quantile(0.5),
            "p99": quantile(0.99),
        })
    }

    fn next(&self, number: u64) -> Option<String> {
        let mut run = self.run();
        let lasts = run.number == number && run.ends.is_some_and(|ends| Instant::now() < ends);
        if !lasts || u64::from(run.sent) >= u64::from(RATE) * LASTS.as_secs() {
            return None;
        }
        run.sent += 1;
        Some(self.paths[run.sent as usize % self.paths.len()].clone())
    }

    fn note(&self, number: u64, begun: Instant, failure: Option<String>) {
        let mut run = self.run();
        if run.number != number {
            return;
        }
        run.ended += 1;
        if let Some(failure) = failure {
            run.failed += 1;
            run.failure = Some(failure);
        }
        let now = Instant::now();
        run.recent.push_back((now, now - begun));
        run.forget(now);
    }
}

impl Run {
    fn forget(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|(then, _)| now - *then > RECENT) {
            self.recent.pop_front();
        }
    }
}

struct Client {
    load: Arc<Load>,
    number: u64,
    gateway: u16,
}

type Connection = SendRequest<Empty<Bytes>>;

impl Client {
    async fn run(self, first: Instant) {
        let mut due = interval_at(first, Duration::from_secs(1) * CLIENTS / RATE);
        due.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut kept = None;
        loop {
            due.tick().await;
            let Some(path) = self.load.next(self.number) else { break };
            let begun = Instant::now();
            let failure = match timeout(LIMIT, self.ask(&mut kept, &path)).await {
                Ok(Ok(status)) if !status.is_server_error() => None,
                Ok(Ok(status)) => Some(format!("{path}: {status}")),
                Ok(Err(error)) => Some(format!("{path}: {error}")),
                Err(_) => Some(format!("{path}: no reply within {LIMIT:?}")),
            };
            self.load.note(self.number, begun, failure);
        }
    }

    async fn ask(
        &self,
        kept: &mut Option<Connection>,
        path: &str,
    ) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
        let gateway = SocketAddr::from((Ipv4Addr::LOCALHOST, self.gateway));
        let mut connection = match kept.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => connect(gateway).await?,
        };
        let request = Request::get(path).header(HOST, gateway.to_string()).body(Empty::new())?;
        connection.ready().await?;
        let (head, mut body) = connection.send_request(request).await?.into_parts();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        *kept = Some(connection);
        Ok(head.status)
    }
}

async fn connect(
    gateway: SocketAddr,
) -> Result<Connection, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(gateway).await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The request reports connection errors as well.
    tokio::spawn(connection);
    Ok(sender)
}
