//! The thread that sends spans and metrics to collectors.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::Endpoint;
use crate::http::exchange;

/// Maximum number of attempts to send a request before it is dropped; the pause between attempts
/// doubles.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const FLUSH: Duration = Duration::from_secs(3);

pub(super) trait Signal: Send + 'static {
    const NAME: &'static str;

    /// The next request, if there is data to send.
    fn next(&mut self) -> Option<Batch>;

    fn count(&self, items: u64, fate: Fate);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Exported,
    Refused,
    Unreachable,
}

pub(super) struct Batch {
    pub(super) items: u64,
    pub(super) request: Bytes,
    /// Whether more can be sent at once.
    pub(super) more: bool,
}

pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) allowed: Duration,
    pub(super) every: Duration,
}

/// Sends until it is dropped, then sends the rest within a few seconds.
pub(crate) struct Exporter {
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(super) fn start<A: Signal, B: Signal>(
        first: Option<(Target, A)>,
        second: Option<(Target, B)>,
    ) -> io::Result<Exporter> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(());
        let first = first.map(|(target, signal)| Sending::new(target, signal, &stopped));
        let second = second.map(|(target, signal)| Sending::new(target, signal, &stopped));
        let thread = std::thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            runtime.block_on(async { tokio::join!(run(first), run(second)) });
            // The lookup of a collector's name may hang in its own thread.
            runtime.shutdown_background();
        })?;
        Ok(Exporter { stop: Some(stop), thread: Some(thread) })
    }
}

async fn run<S: Signal>(sending: Option<Sending<S>>) {
    if let Some(sending) = sending {
        sending.run().await;
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
}

struct Sending<S> {
    target: Target,
    signal: S,
    /// Notified at the end. `stopping` then returns the time to stop.
    stopped: watch::Receiver<()>,
    stopping: bool,
    failing: bool,
}

/// Reason why a request was not accepted.
struct Failure {
    reason: String,
    /// Minimum time before a retry, if retrying is allowed.
    again: Option<Duration>,
}

impl<S: Signal> Sending<S> {
    fn new(target: Target, signal: S, stopped: &watch::Receiver<()>) -> Self {
        Sending { target, signal, stopped: stopped.clone(), stopping: false, failing: false }
    }

    async fn run(mut self) {
        let mut stopped = self.stopped.clone();
        let allowed = FLUSH.min(self.target.allowed);
        let too_long = async {
            // Carries no messages; closing it is the signal.
            let _ = stopped.changed().await;
            sleep(allowed).await;
        };
        tokio::select! {
            () = self.send_all() => {}
            () = too_long => {
                tracing::warn!("the collector is too slow: the last {} are lost", S::NAME);
            }
        }
    }

    /// Sends until the end, then sends the rest.
    async fn send_all(&mut self) {
        while !self.stopping {
            self.pause(self.target.every).await;
            let mut more = true;
            while more && let Some(batch) = self.signal.next() {
                more = batch.more;
                self.send_again(batch).await;
            }
        }
    }

    /// Waits, but not beyond the end of the exporter.
    async fn pause(&mut self, time: Duration) {
        if !self.stopping {
            self.stopping = timeout(time, self.stopped.changed()).await.is_ok();
        }
    }

    /// Sends a request until it is accepted, rejected or dropped.
    async fn send_again(&mut self, batch: Batch) {
        let mut wait = FIRST_WAIT;
        for tried in 1.. {
            let result = self.send(&batch).await;
            let again = result.as_ref().err().and_then(|failure| failure.again);
            self.note(result.as_ref().err());
            let Some(later) = again.filter(|_| tried < TRIES && !self.stopping) else {
                return self.done(&batch, &result);
            };
            self.pause(wait.max(later).min(LONGEST_WAIT)).await;
            wait *= 2;
        }
    }

    fn done(&self, batch: &Batch, result: &Result<u64, Failure>) {
        match result {
            Ok(rejected) => {
                self.signal.count(batch.items - rejected, Fate::Exported);
                self.signal.count(*rejected, Fate::Refused);
            }
            Err(Failure { again: None, .. }) => self.signal.count(batch.items, Fate::Refused),
            Err(_) => self.signal.count(batch.items, Fate::Unreachable),
        }
    }

    fn note(&mut self, failure: Option<&Failure>) {
        let failed_before = std::mem::replace(&mut self.failing, failure.is_some());
        match failure {
            Some(Failure { reason, .. }) if !failed_before => {
                tracing::warn!(reason, "{} cannot be sent", S::NAME);
            }
            None if failed_before => tracing::info!("{} can be sent again", S::NAME),
            _ => {}
        }
    }

    /// Returns how many spans or points the collector rejected.
    async fn send(&self, batch: &Batch) -> Result<u64, Failure> {
        let later = |reason: String| Failure { reason, again: Some(Duration::ZERO) };
        let reply = match timeout(self.target.allowed, self.exchange(&batch.request)).await {
            Ok(reply) => reply.map_err(later)?,
            Err(_) => return Err(later("no reply in time".to_owned())),
        };
        match reply.status() {
            status if status.is_success() => {
                // If the response is invalid, this does not mean that the collector rejected
                // anything.
                let reply = ExportResponse::decode(reply.into_body()).unwrap_or_default();
                let rejected = reply.partial_success.map_or(0, |partial| partial.rejected);
                Ok(u64::try_from(rejected).unwrap_or(0).min(batch.items))
            }
            // Retryable according to the OTLP specification.
            status @ (StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT) => {
                let again = Some(retry_after(&reply));
                Err(Failure { reason: status.to_string(), again })
            }
            status => Err(Failure { reason: status.to_string(), again: None }),
        }
    }

    async fn exchange(&self, body: &Bytes) -> Result<Response<Bytes>, String> {
        let Target { endpoint, allowed, .. } = &self.target;
        let request = || {
            let request = endpoint.url.request(&endpoint.path).method(Method::POST);
            let request = request.header(CONTENT_TYPE, "application/x-protobuf");
            request.body(Full::new(body.clone())).map_err(|error| error.to_string())
        };
        let until = Instant::now() + *allowed;
        let found = endpoint.url.addresses().await.map_err(|error| error.to_string())?;
        let mut failed = "its name has no address".to_owned();
        for (address, left) in found.iter().zip((1..=found.len() as u32).rev()) {
            // If an address does not respond, the other addresses still get their share of the
            // time.
            let share = until.saturating_duration_since(Instant::now()) / left;
            match timeout(share, exchange(*address, request()?)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => failed = error.to_string(),
                Err(_) => failed = "no reply in time".to_owned(),
            }
        }
        Err(failed)
    }
}

fn retry_after(reply: &Response<Bytes>) -> Duration {
    let seconds =
        reply.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}
