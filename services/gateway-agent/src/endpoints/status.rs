//! Cluster state: Prometheus counters, and whether Envoy has its file.

use std::fmt::Write;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use super::assignment::Counts;

/// Status shared by the agent's tasks; the lock is held only briefly.
#[derive(Debug, Default)]
pub(crate) struct Status(Mutex<Figures>);

#[derive(Clone, Debug, Default)]
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
    watch_error: Option<String>,
    write_error: Option<String>,
}

impl Status {
    /// Reason why Envoy has no file yet. `None` if this agent or an earlier agent wrote the file.
    pub(crate) fn missing(&self) -> Option<String> {
        let Figures { file, watch_error, write_error, .. } = self.read();
        let error = write_error.or(watch_error);
        (!file).then(|| error.unwrap_or_else(|| "no complete list yet".to_owned()))
    }

    pub(crate) fn adopted(&self) {
        self.change(|it| it.file = true);
    }

    pub(crate) fn current(&self, counts: Counts, slices: usize, written: bool) {
        self.change(|it| {
            (it.counts, it.slices, it.file, it.write_error) = (counts, slices, true, None);
            if written {
                it.writes += 1;
                it.last_write = now();
            }
        });
    }

    pub(crate) fn write_failed(&self, error: &std::io::Error) {
        self.change(|it| {
            it.write_errors += 1;
            it.write_error = Some(format!("the file cannot be written: {error}"));
        });
    }

    pub(crate) fn synced(&self) {
        self.change(|it| (it.connected, it.last_sync, it.watch_error) = (true, now(), None));
    }

    pub(crate) fn listed(&self) {
        self.change(|it| it.lists += 1);
    }

    pub(crate) fn over_limit(&self, slices: u64) {
        self.change(|it| it.over_limit += slices);
    }

    pub(crate) fn watch_failed(&self, error: &str) {
        self.change(|it| {
            it.connected = false;
            it.watch_errors += 1;
            it.watch_error = Some(format!("API server: {error}"));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn read(&self) -> Figures {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

pub(crate) fn metrics<'a>(clusters: impl Iterator<Item = (&'a str, &'a Status)>) -> String {
    let all: Vec<_> = clusters.map(|(cluster, status)| (cluster, status.read())).collect();
    let mut text = Metrics(String::new(), &all);
    text.head("endpoints", "gauge", "Endpoints of the Service by state in the file");
    for (cluster, it) in &all {
        for (state, count) in [
            ("healthy", it.counts.healthy),
            ("draining", it.counts.draining),
            ("unready", it.counts.unready),
            ("left_out", it.counts.left_out),
        ] {
            let state = format!(",state=\"{state}\"");
            text.line("endpoints", cluster, &state, count as f64);
        }
    }
    text.each("slices", "gauge", "EndpointSlices of the Service", |it| it.slices as f64);
    let words = "Slices ignored because of the limit; their previous endpoints stay";
    text.each("slices_over_limit_total", "counter", words, |it| it.over_limit as f64);
    text.each("writes_total", "counter", "Files written", |it| it.writes as f64);
    let words = "Files that could not be written";
    text.each("write_errors_total", "counter", words, |it| it.write_errors as f64);
    let words = "Complete lists of the slices in the Service's namespace";
    text.each("lists_total", "counter", words, |it| it.lists as f64);
    let words = "Failed lists and watches in the Service's namespace";
    text.each("watch_errors_total", "counter", words, |it| it.watch_errors as f64);
    let words = "Whether the API server responds for the Service's namespace";
    text.each("connected", "gauge", words, |it| f64::from(u8::from(it.connected)));
    let words = "Time of the last file write, or 0 before the first write";
    text.each("last_write_timestamp_seconds", "gauge", words, |it| it.last_write);
    let words = "Time of the last API server response for the Service's namespace, or 0 before \
        the first response";
    text.each("last_sync_timestamp_seconds", "gauge", words, |it| it.last_sync);
    text.0
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[derive(Debug)]
struct Metrics<'a>(String, &'a [(&'a str, Figures)]);

impl Metrics<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let name = format!("corelane_gateway_agent_{name}");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// The label has the same name as Envoy's, so that queries can join both sets of series. A
    /// `cluster` label would hide the Kubernetes cluster's external label.
    fn line(&mut self, name: &str, cluster: &str, labels: &str, value: f64) {
        let labels = format!("{{envoy_cluster_name=\"{cluster}\"{labels}}}");
        let _ = writeln!(self.0, "corelane_gateway_agent_{name}{labels} {value}");
    }

    fn each(&mut self, name: &str, kind: &str, help: &str, value: impl Fn(&Figures) -> f64) {
        self.head(name, kind, help);
        for (cluster, it) in self.1 {
            self.line(name, cluster, "", value(it));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_missing_file_is_the_last_failure() {
        let status = Status::default();
        assert_eq!(status.missing().as_deref(), Some("no complete list yet"));
        status.watch_failed("403 Forbidden");
        assert_eq!(status.missing().as_deref(), Some("API server: 403 Forbidden"));
        status.write_failed(&std::io::Error::other("full"));
        status.synced();
        assert_eq!(status.missing().as_deref(), Some("the file cannot be written: full"));
        status.current(Counts::default(), 0, true);
        status.watch_failed("403 Forbidden");
        assert_eq!(status.missing(), None);
    }

    #[test]
    fn the_series_of_a_metric_follow_its_help_once() {
        let (one, two) = (Status::default(), Status::default());
        two.listed();
        let text = metrics([("one", &one), ("two", &two)].into_iter());
        let lists: Vec<_> = text.lines().filter(|line| line.contains("_lists_total")).collect();
        let name = "corelane_gateway_agent_lists_total";
        assert_eq!(lists[1], format!("# TYPE {name} counter"));
        assert_eq!(lists[2], format!("{name}{{envoy_cluster_name=\"one\"}} 0"));
        assert_eq!(lists[3], format!("{name}{{envoy_cluster_name=\"two\"}} 1"));
        assert_eq!(lists.len(), 4);
    }
}
