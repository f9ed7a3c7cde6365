//! Shows whether Envoy has the newest routes, for probes and for Prometheus.

use std::sync::{Mutex, MutexGuard};

/// State that the source, the applier and the probe responses share.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Figures>);

#[derive(Debug, Default)]
struct Figures {
    /// Whether Envoy's files exist.
    written: bool,
    /// Whether Envoy has accepted routes since this agent started.
    taken: bool,
    /// Whether Envoy uses the newest routes.
    current: bool,
    applied: u64,
    rejected: u64,
    /// The last failure of the source.
    error: Option<String>,
}

impl Status {
    /// The reason why Envoy cannot start; `None` if it can.
    pub(crate) fn missing(&self) -> Option<String> {
        let it = self.read();
        (!it.written).then(|| it.error.clone().unwrap_or_else(|| "not read yet".to_owned()))
    }

    /// Whether Envoy can serve: it has accepted the routes of this agent or of an earlier one.
    pub(crate) fn taken(&self) -> bool {
        self.read().taken
    }

    /// Records that the files that Envoy needs to start exist.
    pub(crate) fn written(&self) {
        self.read().written = true;
    }

    /// Records that Envoy has the routes of an earlier agent.
    pub(crate) fn taken_before(&self) {
        self.read().taken = true;
    }

    /// Records that there are newer routes.
    pub(crate) fn outdated(&self) {
        self.read().current = false;
    }

    /// Records that Envoy uses the newest routes. `changed`: it did not use them before.
    pub(crate) fn applied(&self, changed: bool) {
        let mut it = self.read();
        (it.taken, it.current) = (true, true);
        it.applied += u64::from(changed);
    }

    /// Records that Envoy keeps the previous routes. `former`: there are previous routes.
    pub(crate) fn rejected(&self, former: bool) {
        let mut it = self.read();
        it.taken |= former;
        it.current = false;
        it.rejected += 1;
    }

    /// Records that the source cannot be read.
    pub(crate) fn failed(&self, error: &str) {
        self.read().error = Some(error.to_owned());
    }

    /// The metrics as Prometheus text.
    pub(crate) fn metrics(&self) -> String {
        let it = self.read();
        let prefix = "corelane_gateway_agent";
        let current = u8::from(it.current);
        let (applied, rejected) = (it.applied, it.rejected);
        format!(
            "# HELP {prefix}_routes_current Whether Envoy uses the newest routes\n\
             # TYPE {prefix}_routes_current gauge\n\
             {prefix}_routes_current {current}\n\
             # HELP {prefix}_route_changes_total Changes of routes, by what Envoy made of them\n\
             # TYPE {prefix}_route_changes_total counter\n\
             {prefix}_route_changes_total{{outcome=\"applied\"}} {applied}\n\
             {prefix}_route_changes_total{{outcome=\"rejected\"}} {rejected}\n"
        )
    }

    fn read(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
