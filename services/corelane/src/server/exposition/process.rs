//! Process metrics from procfs(5), and cgroup metrics: CPUs, throttling and the memory limit.

use std::fmt;
use std::sync::Arc;

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, Value, counter};
use crate::os::cpu::{Throttling, memory_limit};
use crate::server::shared::Shared;

const CPUS: Family = Family::gauge(
    "corelane_cpus",
    "CPUs that the server may use, by source: online CPUs, the cgroup's cpuset, the affinity \
     mask, the CFS quota",
);

const MEMORY_LIMIT: Family =
    Family::gauge("corelane_memory_limit_bytes", "Memory limit of the server's cgroup");

type OfThrottling = (Family, fn(&Throttling) -> Value);

/// Omitted if the cgroup has no quota counters, and 0 if it has no quota.
const OF_THROTTLING: &[OfThrottling] = &[
    counter(
        "corelane_cpu_periods",
        "CFS quota periods in which the server's cgroup or a visible ancestor ran",
        |counted| counted.periods.into(),
    ),
    counter(
        "corelane_cpu_throttled_periods",
        "CFS quota periods in which the server's cgroup or a visible ancestor used up its quota",
        |counted| counted.throttled_periods.into(),
    ),
    counter(
        "corelane_cpu_throttled_seconds",
        "Time during which a CFS quota throttled threads of the server's cgroup or a visible \
         ancestor, across all CPUs",
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
        if let Some(bytes) = memory_limit() {
            MEMORY_LIMIT.single(&mut out, bytes)?;
        }
        let Some(counted) = Throttling::read() else { return Ok(()) };
        OF_THROTTLING.iter().try_for_each(|(family, read)| family.single(&mut out, read(&counted)))
    }
}

const CPU: Family = Family::counter("process_cpu_seconds", "User and system CPU time");
const MEMORY: Family = Family::gauge("process_resident_memory_bytes", "Resident memory");
const START: Family =
    Family::gauge("process_start_time_seconds", "Start time since the Unix epoch");
const OPEN_FILES: Family = Family::gauge("process_open_fds", "Open files");
const MOST_FILES: Family = Family::gauge("process_max_fds", "Maximum open files");

#[derive(Debug)]
pub(crate) struct ProcessCollector;

impl Collector for ProcessCollector {
    /// Omits values that cannot be read.
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second();
            CPU.single(&mut out, Value::Real((stat.utime + stat.stime) as f64 / ticks as f64))?;
            MEMORY.single(&mut out, stat.rss_bytes().get())?;
            if let Ok(boot) = procfs::boot_time_secs() {
                START.single(&mut out, boot + stat.starttime / ticks)?;
            }
        }
        if let Ok(open) = process.fd_count() {
            OPEN_FILES.single(&mut out, open)?;
        }
        if let Ok(limits) = process.limits()
            && let LimitValue::Value(max) = limits.max_open_files.soft_limit
        {
            MOST_FILES.single(&mut out, max)?;
        }
        Ok(())
    }
}
