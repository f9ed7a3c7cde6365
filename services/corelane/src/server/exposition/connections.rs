//! Metrics of connections: parking, moves between lanes, TLS.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, LaneMetrics, PlanOutcome};
use crate::server::shared::Shared;
use crate::transport::tls::Reload;

type OfLane = (Family, fn(&LaneMetrics) -> u64);

/// Families with one value for each lane.
const OF_LANES: &[OfLane] = &[
    (
        Family::gauge("corelane_connections_parked", "Open connections that are parked"),
        LaneMetrics::parked,
    ),
    (
        Family::gauge(
            "corelane_connections_upgraded",
            "Open connections and HTTP/2 streams that another protocol, such as WebSocket, uses",
        ),
        |metrics| metrics.upgraded.get(),
    ),
    (
        Family::counter(
            "corelane_connection_parkings",
            "Times that a connection was parked after it was idle for park_after",
        ),
        |metrics| metrics.parkings.get(),
    ),
    (
        Family::counter(
            "corelane_connection_arrivals",
            "Connections that arrived from another lane, or returned because it did not accept \
             them",
        ),
        |metrics| metrics.arrived.get(),
    ),
];

type ByReason = (Family, fn(&LaneMetrics) -> Vec<(&'static str, u64)>);

/// Families with one value for each lane and reason.
const BY_REASON: &[ByReason] = &[
    (
        Family::counter(
            "corelane_connection_wakes",
            "Parked connections that were woken or closed, by reason",
        ),
        |metrics| metrics.woken().collect(),
    ),
    (
        Family::counter(
            "corelane_connection_moves",
            "Connections that left for another lane, by reason",
        ),
        |metrics| metrics.moved().collect(),
    ),
];

const IN_TRANSIT: Family = Family::gauge(
    "corelane_connections_in_transit",
    "Connections that have left a lane and not arrived at another",
);

const PLANS: Family = Family::counter(
    "corelane_moving_plans",
    "Plans to move active connections from a busy lane to another, by result",
);

#[derive(Debug)]
pub(super) struct IdleCollector {
    pub(super) shared: Arc<Shared>,
}

impl Collector for IdleCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let each = || self.shared.lanes.iter().map(|lane| &lane.metrics).enumerate();
        for (family, read) in OF_LANES {
            let mut series = family.begin(&mut out)?;
            for (lane, metrics) in each() {
                series.add(&[("lane", &lane.to_string())], read(metrics))?;
            }
        }
        for (family, read) in BY_REASON {
            let mut series = family.begin(&mut out)?;
            for (lane, metrics) in each() {
                for (reason, n) in read(metrics) {
                    series.add(&[("lane", &lane.to_string()), ("reason", reason)], n)?;
                }
            }
        }
        IN_TRANSIT.single(&mut out, self.shared.lanes.in_transit())?;
        let mut series = PLANS.begin(&mut out)?;
        PlanOutcome::ALL.iter().try_for_each(|&(plan, outcome)| {
            series.add(&[("outcome", outcome)], self.shared.plans.get(plan))
        })
    }
}

const HANDSHAKES: Family =
    Family::counter("corelane_tls_handshakes", "Finished TLS handshakes by result");

const RELOADS: Family = Family::counter(
    "corelane_tls_reloads",
    "Reloads of changed certificate files by result; after a failure the old one stays in use",
);

const UP_TO_DATE: Family = Family::gauge(
    "corelane_tls_certificate_up_to_date",
    "1 while the certificate in the files is in use, 0 after a failed reload",
);

const NOT_AFTER: Family = Family::gauge(
    "corelane_tls_certificate_not_after_seconds",
    "Expiry time of the current certificate since the Unix epoch",
);

#[derive(Debug)]
pub(super) struct TlsCollector {
    pub(super) shared: Arc<Shared>,
}

impl Collector for TlsCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let Some(tls) = self.shared.tls() else { return Ok(()) };
        let mut series = HANDSHAKES.begin(&mut out)?;
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            let index = index.to_string();
            for (result, n) in lane.metrics.handshakes() {
                series.add(&[("lane", &index), ("result", result)], n)?;
            }
        }
        let mut series = RELOADS.begin(&mut out)?;
        for (result, name) in Reload::ALL {
            series.add(&[("result", name)], tls.reloads(result))?;
        }
        UP_TO_DATE.single(&mut out, tls.up_to_date())?;
        NOT_AFTER.single(&mut out, tls.not_after())
    }
}
