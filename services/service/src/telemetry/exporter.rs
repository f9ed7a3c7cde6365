//! The thread that sends spans to a collector.

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
use super::otlp::{self, ExportResponse, Resource};
use super::spans::{Fate, Spans};
use crate::http::exchange;

/// Interval between checks for spans.
const EVERY: Duration = Duration::from_millis(500);

/// Maximum spans per request.
const BATCH: usize = 512;

/// Attempts to send spans before they are dropped, with a pause that doubles in between.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Maximum time to send the remaining spans at the end.
const FLUSH: Duration = Duration::from_secs(3);

/// Sends spans until it is dropped, and then the remaining ones within a few seconds.
pub(crate) struct Exporter {
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(super) fn start(
        endpoint: Endpoint,
        allowed: Duration,
        resource: Resource,
        spans: &Spans,
    ) -> io::Result<Exporter> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(());
        let sending = Sending {
            endpoint,
            allowed,
            resource,
            spans: spans.clone(),
            stopped,
            stopping: false,
            failing: false,
        };
        let thread = std::thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            runtime.block_on(sending.run());
            // A lookup of the collector's name may hang in its thread.
            runtime.shutdown_background();
        })?;
        Ok(Exporter { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Sending {
    endpoint: Endpoint,
    /// Timeout of one request.
    allowed: Duration,
    resource: Resource,
    spans: Spans,
    /// Notified at the end, after which `stopping` returns when to stop.
    stopped: watch::Receiver<()>,
    stopping: bool,
    /// The last request failed, and that was logged.
    failing: bool,
}

/// Encoded spans.
struct Batch {
    spans: u64,
    request: Bytes,
}

/// Why spans were not accepted.
struct Failure {
    reason: String,
    /// The minimum time before a retry, if one is allowed.
    again: Option<Duration>,
}

impl Sending {
    async fn run(mut self) {
        let mut stopped = self.stopped.clone();
        let allowed = FLUSH.min(self.allowed);
        let too_long = async {
            // Nothing is sent on this channel: it only closes.
            let _ = stopped.changed().await;
            sleep(allowed).await;
        };
        tokio::select! {
            () = self.send_all() => {}
            () = too_long => tracing::warn!("the collector is too slow: the last spans are lost"),
        }
    }

    /// Sends spans until the end, and then the remaining ones.
    async fn send_all(&mut self) {
        while !self.stopping {
            self.pause(EVERY).await;
            while let Some(batch) = self.next() {
                self.send_again(batch).await;
            }
        }
    }

    /// Waits, but not beyond the end.
    async fn pause(&mut self, time: Duration) {
        if !self.stopping {
            self.stopping = timeout(time, self.stopped.changed()).await.is_ok();
        }
    }

    /// The next spans to send, if any.
    fn next(&self) -> Option<Batch> {
        let records = self.spans.take(BATCH);
        let batch = || Batch {
            spans: records.len() as u64,
            request: otlp::request(&self.resource, &records).into(),
        };
        (!records.is_empty()).then(batch)
    }

    /// Sends spans until they are accepted, rejected or dropped.
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

    /// Counts the result of spans.
    fn done(&self, batch: &Batch, result: &Result<u64, Failure>) {
        match result {
            Ok(rejected) => {
                self.spans.count(batch.spans - rejected, Fate::Exported);
                self.spans.count(*rejected, Fate::Refused);
            }
            Err(Failure { again: None, .. }) => self.spans.count(batch.spans, Fate::Refused),
            Err(_) => self.spans.count(batch.spans, Fate::Unreachable),
        }
    }

    /// Logs the first of consecutive failures, and the recovery.
    fn note(&mut self, failure: Option<&Failure>) {
        let failed_before = std::mem::replace(&mut self.failing, failure.is_some());
        match failure {
            Some(Failure { reason, .. }) if !failed_before => {
                tracing::warn!(reason, "spans cannot be sent");
            }
            None if failed_before => tracing::info!("spans can be sent again"),
            _ => {}
        }
    }

    /// Sends one request. Returns how many of its spans the collector rejected.
    async fn send(&self, batch: &Batch) -> Result<u64, Failure> {
        let later = |reason: String| Failure { reason, again: Some(Duration::ZERO) };
        let reply = match timeout(self.allowed, self.exchange(&batch.request)).await {
            Ok(reply) => reply.map_err(later)?,
            Err(_) => return Err(later("no reply in time".to_owned())),
        };
        match reply.status() {
            status if status.is_success() => {
                // An invalid reply does not mean that spans were rejected.
                let reply = ExportResponse::decode(reply.into_body()).unwrap_or_default();
                let rejected = reply.partial_success.map_or(0, |partial| partial.rejected_spans);
                Ok(u64::try_from(rejected).unwrap_or(0).min(batch.spans))
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
        let request = || {
            let request = self.endpoint.url.request(&self.endpoint.path).method(Method::POST);
            let request = request.header(CONTENT_TYPE, "application/x-protobuf");
            request.body(Full::new(body.clone())).map_err(|error| error.to_string())
        };
        let until = Instant::now() + self.allowed;
        let found = self.endpoint.url.addresses().await.map_err(|error| error.to_string())?;
        let mut failed = "its name has no address".to_owned();
        for (address, left) in found.iter().zip((1..=found.len() as u32).rev()) {
            // An address that does not answer leaves the others their share of the time.
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
