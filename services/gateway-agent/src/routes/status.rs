//! Tracks whether Envoy has the newest routes, for probes and Prometheus.

use std::sync::{Mutex, MutexGuard};

#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Figures>);

#[derive(Debug, Default)]
struct Figures {
    written: bool,
    /// Whether Envoy has accepted routes since this agent started.
    taken: bool,
    current: bool,
    applied: u64,
    rejected: u64,
    error: Option<String>,
}

impl Status {
    pub(crate) fn missing(&self) -> Option<String> {
        let it = self.read();
        (!it.written).then(|| it.error.clone().unwrap_or_else(|| "not read yet".to_owned()))
    }

    /// Whether Envoy has accepted the routes of this or an earlier agent and can serve.
    pub(crate) fn taken(&self) -> bool {
        self.read().taken
    }

    pub(crate) fn written(&self) {
        self.read().written = true;
    }

    pub(crate) fn taken_before(&self) {
        self.read().taken = true;
    }

    pub(crate) fn outdated(&self) {
        self.read().current = false;
    }

    pub(crate) fn applied(&self, changed: bool) {
        let mut it = self.read();
        (it.taken, it.current) = (true, true);
        it.applied += u64::from(changed);
    }

    pub(crate) fn rejected(&self, former: bool) {
        let mut it = self.read();
        it.taken |= former;
        it.current = false;
        it.rejected += 1;
    }

    pub(crate) fn failed(&self, error: &str) {
        self.read().error = Some(error.to_owned());
    }

    pub(crate) fn metrics(&self) -> String {
        let it = self.read();
        let prefix = "corelane_gateway_agent";
        let current = u8::from(it.current);
        let (applied, rejected) = (it.applied, it.rejected);
        format!(
            "# HELP {prefix}_routes_current Whether Envoy uses the newest routes\n\
             # TYPE {prefix}_routes_current gauge\n\
             {prefix}_routes_current {current}\n\
             # HELP {prefix}_route_changes_total Route changes by Envoy's outcome\n\
             # TYPE {prefix}_route_changes_total counter\n\
             {prefix}_route_changes_total{{outcome=\"applied\"}} {applied}\n\
             {prefix}_route_changes_total{{outcome=\"rejected\"}} {rejected}\n"
        )
    }

    fn read(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
