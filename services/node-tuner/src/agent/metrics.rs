//! Prometheus metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{Counter, Gauge};
use prometheus_client::registry::Registry;

use super::status::{Counts, Facts, Status};
use crate::catalogue::{self, Class, Kind};
use crate::proof::NodeProof;
use crate::report::{Report, State};

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn text(status: &Arc<Status>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(Arc::clone(status))));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Metrics(Arc<Status>);

struct Family<'a, 'b> {
    out: &'a mut DescriptorEncoder<'b>,
}

impl Collector for Metrics {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let facts = self.0.facts();
        let mut family = Family { out: &mut out };
        family.agent(&facts)?;
        family.counts(&facts.knobs)?;
        if let Some(pass) = &facts.pass {
            family.settings(&pass.report)?;
        }
        match &facts.proof {
            Ok(proof) => family.proof(proof),
            Err(_) => Ok(()),
        }
    }
}

impl Family<'_, '_> {
    fn gauge<'s>(&'s mut self, name: &'s str, help: &str) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.out.encode_descriptor(name, help, None, Gauge)
    }

    fn counter<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.out.encode_descriptor(name, help, None, Counter)
    }

    fn agent(&mut self, facts: &Facts) -> fmt::Result {
        let labels = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("mode", facts.mode.text()),
            ("profile", &facts.profile),
        ];
        self.gauge("corelane_node_tuner_info", "Mode and profile of the agent")?
            .encode_family(&labels)?
            .encode_gauge(&1_u64)?;
        if let (Some(prepared), Some(pass)) = (facts.prepared(), &facts.pass) {
            self.gauge("corelane_node_prepared", "Whether the node matches its profile")?
                .encode_gauge(&u64::from(prepared))?;
            let help = "Settings whose original value is in the journal for a later restore";
            self.gauge("corelane_node_journal_settings", help)?
                .encode_gauge(&(pass.journalled as u64))?;
        }
        let help = "End time of the last pass over all settings, or 0 before the first pass";
        self.gauge("corelane_node_last_pass_timestamp_seconds", help)?
            .encode_gauge(&facts.last_pass)?;
        let help = "Passes that failed or did not restore all settings";
        self.counter("corelane_node_failed_passes", help)?
            .encode_counter::<NoLabelSet, _, u64>(&facts.failed_passes, None)?;
        let help = "Failed requests to the API server, by operation";
        let mut errors = self.counter("corelane_node_api_errors", help)?;
        for (operation, count) in &facts.api_errors {
            errors
                .encode_family(&[("operation", operation.text())])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }

    fn counts(&mut self, knobs: &BTreeMap<&'static str, Counts>) -> fmt::Result {
        let mut counter = |name: &str, help: &str, value: &dyn Fn(&Counts) -> u64| -> fmt::Result {
            let name = format!("corelane_node_knob_{name}");
            let mut counter = self.counter(&name, help)?;
            for (knob, counts) in knobs {
                counter
                    .encode_family(&[("knob", *knob)])?
                    .encode_counter::<NoLabelSet, _, u64>(&value(counts), None)?;
            }
            Ok(())
        };
        counter(
            "drift",
            "Settings that matched the profile and were changed by another process",
            &|it| it.drift,
        )?;
        counter("repairs", "Settings rewritten after a drift", &|it| it.repairs)?;
        counter("failures", "Settings that could not be written", &|it| it.failures)
    }

    fn settings(&mut self, report: &Report) -> fmt::Result {
        let mut states: BTreeMap<(&str, Class, State), u64> = BTreeMap::new();
        for row in &report.knobs {
            *states.entry((row.name, row.class, row.state)).or_default() += 1;
        }
        let help = "Files of node settings by setting, class and state";
        let mut settings = self.gauge("corelane_node_knob_settings", help)?;
        for ((knob, class, state), count) in states {
            let labels = [("knob", knob), ("class", class.text()), ("state", state.text())];
            settings.encode_family(&labels)?.encode_gauge(&count)?;
        }
        let numbers = numbers(report);
        let mut wanted =
            self.gauge("corelane_node_knob_wanted", "Value of a node setting in the profile")?;
        for (knob, value, _) in &numbers {
            wanted.encode_family(&[("knob", *knob)])?.encode_gauge(value)?;
        }
        let mut actual =
            self.gauge("corelane_node_knob_actual", "Current value of a node setting")?;
        for (knob, _, value) in &numbers {
            if let Some(value) = value {
                actual.encode_family(&[("knob", *knob)])?.encode_gauge(value)?;
            }
        }
        Ok(())
    }

    fn proof(&mut self, proof: &NodeProof) -> fmt::Result {
        self.gauge("corelane_node_pods", "Pods on the node whose pinning the agent checks")?
            .encode_gauge(&(proof.pods.len() as u64))?;
        let proven = proof.pods.iter().filter(|pod| pod.proven).count();
        let help = "Pods with exclusive CPUs, without a quota and without a failed check";
        self.gauge("corelane_node_pods_proven", help)?.encode_gauge(&(proven as u64))?;
        self.cpu_time(proof)?;
        let help = "1 for the current outcome of a container check";
        let mut checks = self.gauge("corelane_node_pod_check", help)?;
        for pod in &proof.pods {
            for container in &pod.containers {
                for check in &container.checks {
                    let labels = [
                        ("namespace", pod.namespace.as_str()),
                        ("pod", &pod.pod),
                        ("container", &container.container),
                        ("check", check.check.text()),
                        ("state", check.state.text()),
                    ];
                    checks.encode_family(&labels)?.encode_gauge(&1_u64)?;
                }
            }
        }
        Ok(())
    }

    fn cpu_time(&mut self, proof: &NodeProof) -> fmt::Result {
        let help = "CPU time of a container at the last pass";
        let mut seconds = self.counter("corelane_node_pod_cpu_seconds", help)?;
        for pod in &proof.pods {
            for container in &pod.containers {
                let Some(time) = container.cpu_time else { continue };
                let labels = [
                    ("namespace", pod.namespace.as_str()),
                    ("pod", &pod.pod),
                    ("container", &container.container),
                ];
                seconds
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&time.as_secs_f64(), None)?;
            }
        }
        Ok(())
    }
}

/// Settings with one numeric file, with the profile's value and the current value.
fn numbers(report: &Report) -> Vec<(&'static str, f64, Option<f64>)> {
    let single = |name| report.knobs.iter().filter(|row| row.name == name).count() == 1;
    // A list with a single CPU looks like a number but is none.
    let numeric = |name| {
        let kind = catalogue::find(name).map(|knob| knob.kind);
        matches!(kind, Some(Kind::Number { .. } | Kind::NumberOrAuto { .. }))
    };
    let rows = report.knobs.iter().filter(|row| numeric(row.name) && single(row.name));
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|it| it.is_finite());
    rows.filter_map(|row| {
        let actual = row.actual.as_deref().and_then(number);
        Some((row.name, number(&row.wanted)?, actual))
    })
    .collect()
}
