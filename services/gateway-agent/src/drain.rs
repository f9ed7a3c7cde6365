//! The drain of a gateway pod.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use crate::admin::{Admin, AdminError};
use crate::settings::Drain;

/// Interval between reads of the statistics.
const LOOK: Duration = Duration::from_millis(100);

/// How long a read may continue after the deadline. Its result decides how the drain is reported.
/// The chart's `shutdown.margin` leaves more time than this.
const LATE: Duration = Duration::from_secs(1);

/// The connections and requests that Envoy still serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    connections: u64,
    requests: u64,
}

/// Drains Envoy. An error means that the drain did not start. Reaching the deadline is not an
/// error.
pub(crate) async fn drain(settings: &Drain) -> Result<(), AdminError> {
    let admin = Admin { address: settings.admin };
    let began = Instant::now();
    let deadline = began + settings.deadline;

    // From now on /ready fails, and every response carries `Connection: close`, or GOAWAY over
    // HTTP/2.
    admin.post("/healthcheck/fail", deadline).await?;
    // Envoy's own drain does the same. Without `skip_exit` it would close its listeners at
    // --drain-time-s, while Services may still send connections here.
    admin.post("/drain_listeners?graceful&skip_exit", deadline).await?;
    info!(?settings.settle, ?settings.deadline, "drain: begun");

    sleep_until(began + settings.settle).await;
    let mut last = left(&admin, settings, deadline + LATE).await;
    let (after_ms, connections, requests) = figures(began, last);
    info!(after_ms, connections, requests, "drain: settled");

    // Leaves time for the response to the last read.
    while last.is_none_or(|left| left.connections > 0) && Instant::now() + 2 * LOOK < deadline {
        sleep(LOOK).await;
        last = left(&admin, settings, deadline + LATE).await;
    }
    let (after_ms, connections, requests) = figures(began, last);
    match requests {
        // The remaining connections are idle, so their clients lose nothing.
        Some(0) => info!(after_ms, connections, requests, "drain: ended"),
        _ => warn!(after_ms, connections, requests, "drain: cut at its deadline"),
    }
    Ok(())
}

/// Fields of log lines: the elapsed time, and the remaining connections and requests, if known.
fn figures(began: Instant, left: Option<Left>) -> (u64, Option<u64>, Option<u64>) {
    let after_ms = began.elapsed().as_millis() as u64;
    (after_ms, left.map(|it| it.connections), left.map(|it| it.requests))
}

/// The remaining connections and requests on all listeners; `None` if the statistics of a listener
/// are missing.
async fn left(admin: &Admin, settings: &Drain, until: Instant) -> Option<Left> {
    let connections = |listener| format!("listener.{listener}.downstream_cx_active");
    let requests = |listener| format!("http.{listener}.downstream_rq_active");
    let listeners = &settings.listeners;
    let names: Vec<_> = listeners.iter().flat_map(|it| [connections(it), requests(it)]).collect();
    let found = admin.statistics(&names, until).await.ok()?;
    let sum = |names: &mut dyn Iterator<Item = String>| -> Option<u64> {
        names.map(|name| found.get(&name).copied()).sum()
    };
    Some(Left {
        connections: sum(&mut listeners.iter().map(connections))?,
        requests: sum(&mut listeners.iter().map(requests))?,
    })
}
