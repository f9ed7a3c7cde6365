//! Metrics of injected faults.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use corelane::prometheus_client::metrics::MetricType::{Counter, Gauge};

use super::Faults;
use super::set::Effect;
use crate::per_lane::Count;

#[derive(Debug)]
pub(super) struct Injected(Vec<[Count; Effect::NAMES.len()]>);

impl Injected {
    pub(super) fn new(routes: usize) -> Self {
        Injected((0..routes).map(|_| Default::default()).collect())
    }

    pub(super) fn note(&self, route: usize, effect: Effect) {
        self.0[route][effect.index()].add_one();
    }
}

#[derive(Debug)]
pub(crate) struct FaultCollector(pub(crate) Arc<Faults>);

impl Collector for FaultCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let now = Instant::now();
        let active = self.0.current().faults.iter().filter(|fault| fault.lasts(now)).count();
        out.encode_descriptor("corelane_faults_active", "Active faults", None, Gauge)?
            .encode_gauge(&(active as u64))?;
        let help = "Injected faults by route and kind";
        let mut family = out.encode_descriptor("corelane_faults_injected", help, None, Counter)?;
        for (route, template) in self.0.routes.iter().enumerate() {
            for (effect, name) in Effect::NAMES.into_iter().enumerate() {
                let n = self.0.injected.sum(|lane| lane.0[route][effect].get());
                family
                    .encode_family(&[("route", *template), ("fault", name)])?
                    .encode_counter::<NoLabelSet, _, u64>(&n, None)?;
            }
        }
        Ok(())
    }
}
