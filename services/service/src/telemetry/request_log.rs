//! A log line per request: at WARN if the server failed, otherwise at DEBUG.

use std::cell::Cell;
use std::time::{Duration, Instant};

use corelane::{Cut, Finished};
use tracing::Level;

use crate::log::trace_id;

const TARGET: &str = "corelane::request";

/// Maximum failures logged per lane per second, so that an overloaded server does not overload the
/// log.
const FAILURES: u32 = 10;

pub(super) struct RequestLog {
    lane: usize,
    second: Cell<Instant>,
    failures: Cell<u32>,
}

macro_rules! log_line {
    ($level:expr, $lane:expr, $request:expr, $left_out:expr) => {{
        let (request, times): (&Finished<'_>, _) = ($request, $request.times);
        tracing::event!(
            target: TARGET,
            $level,
            // Computed only if this line is logged.
            request_id = request.id().as_ref().map(|id| id.as_str()),
            trace_id = request.trace.filter(|it| it.is_sampled()).map(trace_id).as_deref(),
            client = request.client.map(tracing::field::display),
            method = request.method,
            route = request.route,
            // 499, as in metrics, if the client disconnected before it got the response head.
            status = request.status.map_or(499, |status| status.as_u16()),
            complete = request.complete,
            cut = request.cut.map(Cut::as_str),
            lane = $lane,
            body_bytes = request.body_bytes,
            accept_seconds = times.accept.as_ref().map(Duration::as_secs_f64),
            queue_seconds = times.queue.as_secs_f64(),
            handler_seconds = times.handler.as_ref().map(Duration::as_secs_f64),
            write_seconds = times.write.as_ref().map(Duration::as_secs_f64),
            left_out = $left_out,
            "request"
        );
    }};
}

impl RequestLog {
    pub(super) fn new(lane: usize) -> Self {
        RequestLog { lane, second: Cell::new(Instant::now()), failures: Cell::new(0) }
    }

    pub(super) fn note(&self, request: &Finished<'_>) {
        if !request.status.is_some_and(|status| status.is_server_error()) {
            log_line!(Level::DEBUG, self.lane, request, None::<u32>);
        } else if tracing::enabled!(target: TARGET, Level::WARN)
            && let Some(left_out) = self.admit(Instant::now())
        {
            let left_out = (left_out > 0).then_some(left_out);
            log_line!(Level::WARN, self.lane, request, left_out);
        }
    }

    /// Whether to log a failure now, and how many were suppressed since the last one. If every
    /// request is logged, no failure is suppressed.
    fn admit(&self, now: Instant) -> Option<u32> {
        let mut left_out = 0;
        if now.saturating_duration_since(self.second.get()) >= Duration::from_secs(1) {
            self.second.set(now);
            left_out = self.failures.replace(0).saturating_sub(FAILURES);
        }
        self.failures.set(self.failures.get().saturating_add(1));
        let logged =
            self.failures.get() <= FAILURES || tracing::enabled!(target: TARGET, Level::DEBUG);
        logged.then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_bounded_in_a_second_and_the_rest_is_counted() {
        let log = RequestLog::new(0);
        let start = log.second.get();
        let admitted = (0..30).filter(|_| log.admit(start) == Some(0)).count();
        assert_eq!(admitted as u32, FAILURES);
        assert_eq!(log.admit(start + Duration::from_secs(1)), Some(20));
        assert_eq!(log.admit(start + Duration::from_secs(1)), Some(0));
    }
}
