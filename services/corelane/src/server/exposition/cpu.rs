//! CPU time: available, used and throttled.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, Value};
use crate::os::cpu::Throttling;
use crate::server::shared::Shared;

const CPUS: Family = Family::gauge(
    "corelane_cpus",
    "CPUs that the server may use, by source: online CPUs, the cgroup's cpuset, the affinity \
     mask, the CFS quota",
);

type OfThrottling = (Family, fn(&Throttling) -> Value);

/// Families that are omitted if the cgroup has no quota counters.
const OF_THROTTLING: &[OfThrottling] = &[
    (
        Family::counter(
            "corelane_cpu_periods",
            "Periods of the CFS quota in which the server's cgroup ran",
        ),
        |counted| counted.periods.into(),
    ),
    (
        Family::counter(
            "corelane_cpu_throttled_periods",
            "Periods of the CFS quota in which the server's cgroup was throttled",
        ),
        |counted| counted.throttled_periods.into(),
    ),
    (
        Family::counter(
            "corelane_cpu_throttled_seconds",
            "Time for which the CFS quota throttled threads of the server's cgroup, over all CPUs",
        ),
        |counted| counted.throttled.into(),
    ),
];

#[derive(Debug)]
pub(super) struct CpuCollector {
    pub(super) shared: Arc<Shared>,
}

impl Collector for CpuCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let mut series = CPUS.begin(&mut out)?;
        for (source, n) in self.shared.cpus.view().counts() {
            series.add(&[("source", source)], n)?;
        }
        let Some(counted) = Throttling::read() else { return Ok(()) };
        OF_THROTTLING.iter().try_for_each(|(family, read)| family.single(&mut out, read(&counted)))
    }
}
