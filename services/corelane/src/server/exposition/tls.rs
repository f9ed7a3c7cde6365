//! TLS metrics: handshakes and the certificate.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, Handshake};
use crate::server::shared::Shared;
use crate::transport::tls::Reload;

const HANDSHAKES: Family = Family::counter(
    "corelane_tls_handshakes",
    "Finished TLS handshakes by result; results of clients' certificates only with tls.clients.ca",
);

const RELOADS: Family = Family::counter(
    "corelane_tls_reloads",
    "Reloads of changed certificate files by result; after a failure, the old certificate stays in use",
);

const UP_TO_DATE: Family = Family::gauge(
    "corelane_tls_certificate_up_to_date",
    "1 while the certificate in the files is in use, 0 after a failed reload",
);

const NOT_AFTER: Family = Family::gauge(
    "corelane_tls_certificate_not_after_seconds",
    "Earliest expiry time of the certificates in use, including the clients' CAs, since the Unix epoch",
);

#[derive(Debug)]
pub(super) struct TlsCollector {
    pub(super) shared: Arc<Shared>,
}

impl Collector for TlsCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let Some(tls) = self.shared.tls() else { return Ok(()) };
        let results = match tls.verifies_clients() {
            true => Handshake::ALL.len(),
            false => Handshake::WITHOUT_CLIENTS,
        };
        let mut series = HANDSHAKES.begin(&mut out)?;
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            let index = index.to_string();
            for (result, n) in lane.metrics.handshakes().take(results) {
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
