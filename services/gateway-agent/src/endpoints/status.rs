//! The state of the agent: counters for Prometheus, and whether Envoy has its file.

use std::fmt::Write;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use super::assignment::Counts;

/// Shared by the tasks of the agent behind one lock, which is held briefly.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Figures>);

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    counts: Counts,
    slices: usize,
    file: bool,
    connected: bool,
    writes: u64,
    write_errors: u64,
    watch_errors: u64,
    over_limit: u64,
    lists: u64,
    last_write: f64,
    last_sync: f64,
}

impl Status {
    /// Whether Envoy has a file, of this agent or of an earlier one.
    pub(crate) fn has_file(&self) -> bool {
        self.read().file
    }

    /// There is a file of an earlier agent.
    pub(crate) fn adopted(&self) {
        self.change(|it| it.file = true);
    }

    /// Records the content of the file.
    pub(crate) fn current(&self, counts: Counts, slices: usize, written: bool) {
        self.change(|it| {
            (it.counts, it.slices, it.file) = (counts, slices, true);
            if written {
                it.writes += 1;
                it.last_write = now();
            }
        });
    }

    /// The file could not be written.
    pub(crate) fn write_failed(&self) {
        self.change(|it| it.write_errors += 1);
    }

    /// The API server has replied: the endpoints are up to date.
    pub(crate) fn synced(&self) {
        self.change(|it| (it.connected, it.last_sync) = (true, now()));
    }

    /// All slices were read.
    pub(crate) fn listed(&self) {
        self.change(|it| it.lists += 1);
    }

    /// Slices were not taken because of the limit.
    pub(crate) fn over_limit(&self, slices: u64) {
        self.change(|it| it.over_limit += slices);
    }

    /// The API server is unreachable, or rejects the request.
    pub(crate) fn watch_failed(&self) {
        self.change(|it| {
            it.connected = false;
            it.watch_errors += 1;
        });
    }

    /// The text that Prometheus reads.
    pub(crate) fn metrics(&self) -> String {
        let it = self.read();
        let mut text = Metrics::default();
        text.head("endpoints", "gauge", "Endpoints of the Service by their state in the file");
        for (state, count) in [
            ("healthy", it.counts.healthy),
            ("draining", it.counts.draining),
            ("unready", it.counts.unready),
            ("left_out", it.counts.left_out),
        ] {
            text.line("endpoints", &format!("{{state=\"{state}\"}}"), count as f64);
        }
        text.one("slices", "gauge", "EndpointSlices of the Service", it.slices as f64);
        let words = "Slices that were not taken because of the limit; their former endpoints stay";
        text.one("slices_over_limit_total", "counter", words, it.over_limit as f64);
        text.one("writes_total", "counter", "Files written", it.writes as f64);
        let words = "Files that could not be written";
        text.one("write_errors_total", "counter", words, it.write_errors as f64);
        text.one("lists_total", "counter", "Complete lists of the slices", it.lists as f64);
        let words = "Lists and watches that failed";
        text.one("watch_errors_total", "counter", words, it.watch_errors as f64);
        let words = "Whether the API server answers";
        text.one("connected", "gauge", words, f64::from(u8::from(it.connected)));
        let words = "Time of the last write of the file; 0 before the first";
        text.one("last_write_timestamp_seconds", "gauge", words, it.last_write);
        let words = "Time of the last reply of the API server; 0 before the first";
        text.one("last_sync_timestamp_seconds", "gauge", words, it.last_sync);
        text.0
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn read(&self) -> Figures {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Text in Prometheus' format.
#[derive(Debug, Default)]
struct Metrics(String);

impl Metrics {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("corelane_gateway_agent_{name}");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.0, "corelane_gateway_agent_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }
}
