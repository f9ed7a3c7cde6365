//! Drains a gateway pod.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing::{info, warn};

use crate::admin::{Admin, AdminError};
use crate::settings::Drain;

const LOOK: Duration = Duration::from_millis(100);

/// Allowed delay of the last read beyond the deadline, because the result determines the report.
/// The chart's `shutdown.margin` leaves more time than this.
const LATE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    connections: u64,
    requests: u64,
}

/// Returns an error only if the drain did not start; reaching the deadline is not an error.
pub(crate) async fn drain(settings: &Drain) -> Result<(), AdminError> {
    let admin = Admin { address: settings.admin };
    let began = Instant::now();
    let deadline = began + settings.deadline;

    // From this point, /ready fails and responses carry `Connection: close`, or GOAWAY over HTTP/2.
    admin.post("/healthcheck/fail", deadline).await?;
    // Envoy's own drain does the same. Without `skip_exit`, Envoy would close its listeners after
    // --drain-time-s, while Services may still send connections here.
    admin.post("/drain_listeners?graceful&skip_exit", deadline).await?;
    info!(?settings.settle, ?settings.deadline, "drain: begun");

    sleep_until(began + settings.settle).await;
    let mut last = left(&admin, settings, deadline + LATE).await;
    let (after_ms, connections, requests) = figures(began, last);
    info!(after_ms, connections, requests, "drain: settled");

    // Reserves time for the last read.
    while last.is_none_or(|left| left.connections > 0) && Instant::now() + 2 * LOOK < deadline {
        sleep(LOOK).await;
        last = left(&admin, settings, deadline + LATE).await;
    }
    let (after_ms, connections, requests) = figures(began, last);
    match requests {
        // Only idle connections remain, so no client loses a request.
        Some(0) => info!(after_ms, connections, requests, "drain: ended"),
        _ => warn!(after_ms, connections, requests, "drain: cut at its deadline"),
    }
    Ok(())
}

/// Log fields: elapsed time, and remaining connections and requests if known.
fn figures(began: Instant, left: Option<Left>) -> (u64, Option<u64>, Option<u64>) {
    let after_ms = began.elapsed().as_millis() as u64;
    (after_ms, left.map(|it| it.connections), left.map(|it| it.requests))
}

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
