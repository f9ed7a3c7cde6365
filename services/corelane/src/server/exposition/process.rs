//! The standard `process_` metrics of Prometheus clients, read from procfs(5).

use std::fmt;

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, Value};

const CPU: Family = Family::counter("process_cpu_seconds", "User and system CPU time");
const MEMORY: Family = Family::gauge("process_resident_memory_bytes", "Resident memory");
const START: Family =
    Family::gauge("process_start_time_seconds", "Start time since the Unix epoch");
const OPEN_FILES: Family = Family::gauge("process_open_fds", "Open files");
const MOST_FILES: Family = Family::gauge("process_max_fds", "Maximum open files");

#[derive(Debug)]
pub(crate) struct ProcessCollector;

impl Collector for ProcessCollector {
    /// Values that cannot be read are omitted.
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
