//! Holds many connections: idle connections, slow connections, or connections that all send a
//! request at the same time.
//!
//! Each line on standard input is a step as JSON; its result is a line on standard output. The
//! connections stay open until standard input closes.

pub(crate) mod client;
mod client_loop;
mod link;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use memchr::memchr;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::exchange::Exchanges;
use crate::pool::Lost;
use crate::say;
use crate::tally::own_cpu;
use client::{Client, State, Way};
use client_loop::{ClientLoop, Setting, Stage};
use link::Security;

/// Behaviour of held connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manner {
    /// Idle, except for requests started by a line.
    Idle,
    /// Sends a header that never ends, one byte at a time.
    SlowHead,
    /// Reads a long response a little at a time.
    SlowRead,
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Server addresses, separated by commas; connections alternate between them.
    #[arg(long, value_delimiter = ',', required = true)]
    to: Vec<SocketAddr>,
    /// Source addresses to alternate between, if one has too few ports.
    #[arg(long, value_delimiter = ',')]
    from: Vec<IpAddr>,
    /// Path to request instead of `/hello`.
    #[arg(long, requires = "file")]
    page: Option<String>,
    /// File with the expected body of the page.
    #[arg(long, requires = "page")]
    file: Option<PathBuf>,
    /// Body size of each request in bytes.
    #[arg(long, value_name = "BYTES")]
    body: Option<usize>,
    /// Use TLS with this server certificate (PEM).
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Behaviour of held connections.
    #[arg(long, value_enum, default_value = "idle")]
    manner: Manner,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    /// Open more connections, with or without a request.
    Open {
        connections: usize,
        ask: bool,
        #[serde(default)]
        pace: Pace,
    },
    Ask {
        #[serde(default)]
        pace: Pace,
    },
    Look,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pace {
    /// Spread over this time; 0 starts all at once.
    #[serde(default)]
    seconds: f64,
    /// Start at this `CLOCK_MONOTONIC` time, so that several processes start together.
    at_ns: Option<u64>,
    /// Maximum to start before reading replies; by default all that are due.
    burst: Option<usize>,
    /// No connection starts while this many are in flight.
    window: Option<usize>,
}

impl Pace {
    fn stage(self, coming: VecDeque<usize>, ask: bool) -> Stage {
        let gap = Duration::from_secs_f64(self.seconds / coming.len().max(1) as f64);
        let clock = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(clock.tv_sec.unsigned_abs(), clock.tv_nsec as u32);
        let ahead =
            self.at_ns.map_or(Duration::ZERO, |at| Duration::from_nanos(at).saturating_sub(now));
        let mut stage = Stage::new(Instant::now() + ahead, gap, coming, ask);
        stage.burst = self.burst.unwrap_or(stage.burst);
        stage.window = self.window.unwrap_or(stage.window);
        stage
    }
}

pub(crate) fn run(options: Options) -> Result<(), Lost> {
    let mut exchanges = Exchanges::new(options.to[0], None);
    if let (Some(page), Some(file)) = (&options.page, &options.file) {
        exchanges = exchanges.with_page(options.to[0], page, std::fs::read(file)?);
    }
    if let Some(bytes) = options.body {
        exchanges = exchanges.with_body(bytes);
    }
    let security = options.certificate.as_ref().map(|file| Security::new(file, options.to[0]));
    let security = security.transpose().map_err(io::Error::other)?;
    let Options { to, from, manner, .. } = options;
    let way = Way { reset: true, small: manner == Manner::SlowRead, security };
    let mut client_loop = ClientLoop::new(Setting { to, from, manner, way, exchanges })?;
    client_loop.listen(io::stdin())?;
    say("\"ready\"")?;
    let mut lines = Lines::default();
    loop {
        client_loop.attend(io::stdin())?;
        if !lines.read()? {
            return Ok(());
        }
        while let Some(line) = lines.next() {
            let line = serde_json::from_slice(&line).map_err(io::Error::from)?;
            say(&obey(&mut client_loop, line)?.to_string())?;
        }
    }
}

fn obey(client_loop: &mut ClientLoop, line: Line) -> Result<Value, Lost> {
    let known = client_loop.clients.len();
    let (told, mut stage) = match line {
        Line::Look => return Ok(look(&client_loop.clients)),
        Line::Open { connections, ask, pace } => {
            let coming: VecDeque<_> = (known..known + connections).collect();
            (coming.clone(), pace.stage(coming, ask))
        }
        Line::Ask { pace } => {
            let open = |index: &usize| client_loop.clients[*index].state == State::Open;
            let coming: VecDeque<_> = (0..known).filter(open).collect();
            (coming.clone(), pace.stage(coming, true))
        }
    };
    let before = own_cpu();
    client_loop.run(&mut stage)?;
    let clients: Vec<_> = told.iter().map(|index| &client_loop.clients[*index]).collect();
    let mut report = columns(&clients, stage.begun);
    report["most_at_once"] = json!(stage.most);
    report["seconds"] = json!(stage.begun.elapsed().as_secs_f64());
    report["generator_cpu_seconds"] = json!((own_cpu() - before).as_secs_f64());
    Ok(report)
}

/// Result of each connection in milliseconds from the start of the stage. Only correct responses
/// have a time.
fn columns(clients: &[&Client], begun: Instant) -> Value {
    let ms =
        |time: Instant| (time.saturating_duration_since(begun).as_secs_f64() * 1e6).round() / 1e3;
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    for fault in clients.iter().filter_map(|client| client.fault) {
        *faults.entry(fault.name()).or_default() += 1;
    }
    let column = |of: fn(&Client) -> Option<Instant>| -> Vec<_> {
        clients.iter().map(|client| of(client).map(ms)).collect()
    };
    json!({
        "faults": faults,
        "due_ms": column(|client| Some(client.times.due)),
        "begun_ms": column(|client| Some(client.times.begun)),
        "connected_ms": column(|client| client.times.connected),
        "answered_ms": column(|client| client.times.answered.filter(|_| client.fault.is_none())),
    })
}

fn look(clients: &[Client]) -> Value {
    let mut refusals: BTreeMap<u16, u64> = BTreeMap::new();
    for status in clients.iter().filter_map(|client| client.refusal) {
        *refusals.entry(status).or_default() += 1;
    }
    let lasted: Vec<_> = clients
        .iter()
        .filter_map(|client| Some((client.times.gone? - client.times.connected?).as_secs_f64()))
        .collect();
    let open = clients.iter().filter(|client| client.state == State::Open).count();
    json!({"connections": clients.len(), "open": open, "refusals": refusals, "lasted_s": lasted})
}

/// Lines of standard input, buffered only here, so that polling shows whether more input is
/// available.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Reads available bytes. Returns false at the end.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let length = rustix::io::read(io::stdin(), &mut buffer)?;
        self.0.extend_from_slice(&buffer[..length]);
        Ok(length > 0)
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = memchr(b'\n', &self.0)?;
        Some(self.0.drain(..=end).collect())
    }
}
