//! Available CPUs and memory, number of lanes, and pinning.

pub(crate) mod cgroup;
mod limits;
mod plan;
mod repin;
#[cfg(test)]
mod tree;
mod view;

use std::fmt;
use std::str::FromStr;

pub(crate) use limits::{Throttling, memory_limit};
pub(crate) use plan::{CpuPlan, plan};
pub(crate) use repin::{Cpus, LaneCpu, watch};
pub(crate) use view::CpuView;

use crate::base::settings::words;

/// Number of lanes.
///
/// ```
/// use corelane::Lanes;
/// assert_eq!("auto".parse(), Ok(Lanes::Auto));
/// assert_eq!("2".parse(), Ok(Lanes::Count(2)));
/// assert!("0".parse::<Lanes>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// One lane per CPU that the affinity mask and the cgroup's cpuset allow, up to the number of
    /// whole CPUs in the tightest CFS quota, but at least one lane. This is the default.
    #[default]
    Auto,
    /// This number of lanes, from 1 to 1024.
    Count(usize),
}

/// Maximum number of lanes: the size of the kernel's usual CPU mask.
pub(crate) const MAX_LANES: usize = 1024;

impl Lanes {
    /// Maximum number of lanes.
    pub const MAX: usize = MAX_LANES;
}

impl FromStr for Lanes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Lanes::Auto),
            _ => match text.parse() {
                Ok(n) if (1..=MAX_LANES).contains(&n) => Ok(Lanes::Count(n)),
                _ => Err(format!("auto, or a whole number from 1 to {MAX_LANES}")),
            },
        }
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lanes::Auto => f.write_str("auto"),
            Lanes::Count(n) => write!(f, "{n}"),
        }
    }
}

/// Whether each lane is pinned to a CPU.
///
/// Pinning to CPUs that other processes use is worse than not pinning. Two processes pinned to the
/// first CPU of a shared mask halve each other's speed while another CPU is idle.
///
/// With fewer lanes than CPUs, lanes are placed on separate cores rather than SMT siblings, and on
/// as few NUMA nodes as possible. When a running server's cpuset changes, for example because the
/// kubelet rewrites it, lanes are pinned again within about a second. Lanes run unpinned while the
/// new cpuset does not allow pinning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Pin only if there is evidence that the CPUs belong to this process alone. This is the
    /// default. The server must have one lane per CPU of the mask, the machine must have more CPUs
    /// than that, and no CFS quota may be below the number of lanes. In addition, one of these must
    /// hold:
    ///
    /// - The cgroup requests exactly that many CPUs (1,024 `cpu.shares` each, or the equivalent
    ///   `cpu.weight`), as does a container with whole CPUs under the kubelet's static CPU manager.
    /// - The cpuset is an exclusive partition.
    /// - The cgroup's request is unknown or unset, and you set the number of lanes explicitly.
    #[default]
    Auto,
    /// Always pin. Choose this if you know that the CPUs of the mask belong to this process alone.
    /// More lanes than CPUs are an error.
    On,
    /// Never pin.
    Off,
}

words!(Pin: "auto" => Auto, "on" => On, "off" => Off);
