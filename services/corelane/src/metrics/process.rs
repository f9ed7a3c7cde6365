//! The customary `process_` series of Prometheus clients, read from procfs(5).

use std::fmt;

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

#[derive(Debug)]
pub(crate) struct ProcessCollector;

impl Collector for ProcessCollector {
    /// A value that cannot be read is left out.
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second() as f64;
            let cpu = (stat.utime + stat.stime) as f64 / ticks;
            let help = "User and system CPU time";
            let name = "process_cpu_seconds";
            let mut encoder = out.encode_descriptor(name, help, None, MetricType::Counter)?;
            encoder.encode_counter::<NoLabelSet, _, f64>(&cpu, None)?;
            let rss = stat.rss_bytes().get();
            gauge(&mut out, "process_resident_memory_bytes", "Resident memory", rss)?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let start = boot + stat.starttime / procfs::ticks_per_second();
                let help = "Start time since the Unix epoch";
                gauge(&mut out, "process_start_time_seconds", help, start)?;
            }
        }
        if let Ok(open) = process.fd_count() {
            gauge(&mut out, "process_open_fds", "Open files", open as u64)?;
        }
        if let Ok(limits) = process.limits()
            && let LimitValue::Value(max) = limits.max_open_files.soft_limit
        {
            gauge(&mut out, "process_max_fds", "Most files that may be open", max)?;
        }
        Ok(())
    }
}

fn gauge(out: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut encoder = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    encoder.encode_gauge(&(value as f64))
}
