//! Which CPUs there are, how many lanes they make, and whether lanes may be pinned.

use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many lanes a server has.
///
/// ```
/// use corelane::Lanes;
/// assert_eq!("auto".parse(), Ok(Lanes::Auto));
/// assert_eq!("2".parse(), Ok(Lanes::Count(2)));
/// assert!("0".parse::<Lanes>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// One lane for each CPU of the process's affinity mask (the default).
    #[default]
    Auto,
    /// Exactly this many lanes, at least 1 and at most 1024.
    Count(usize),
}

/// Most lanes a server may have: the size of the kernel's usual CPU mask.
pub(crate) const MAX_LANES: usize = 1024;

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

/// Whether each lane is pinned to a CPU of its own.
///
/// Pinning on CPUs that others use too is worse than not pinning: two processes that both pin to
/// the first CPU of a shared mask halve each other while another CPU idles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Pin only where the CPUs are evidently ours alone: a lane count was set, the affinity mask
    /// has exactly that many CPUs, and it is narrower than the machine. That is what a container
    /// with whole CPUs under the kubelet's static CPU manager looks like (the default).
    #[default]
    Auto,
    /// Pin: the caller knows that the CPUs of the mask are ours.
    On,
    /// Never pin.
    Off,
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Pin::Auto),
            "on" => Ok(Pin::On),
            "off" => Ok(Pin::Off),
            _ => Err("auto, on or off".to_owned()),
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pin::Auto => "auto",
            Pin::On => "on",
            Pin::Off => "off",
        })
    }
}

/// What [`plan`] decides from: nothing else is looked at, so it can be tested with a table.
#[derive(Clone, Debug)]
pub(crate) struct CpuView {
    /// CPUs that this process may run on, ascending.
    pub(crate) affinity: Vec<usize>,
    /// Number of CPUs online on the machine.
    pub(crate) online: usize,
}

impl CpuView {
    /// Reads the affinity mask of the calling thread and the machine's number of CPUs.
    pub(crate) fn read() -> std::io::Result<Self> {
        let set = sched_getaffinity(None)?;
        let affinity = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
        Ok(CpuView { affinity, online: online_cpus() })
    }
}

/// Counts `processor` entries, which a cpuset does not hide (proc(5), /proc/cpuinfo).
fn online_cpus() -> usize {
    std::fs::read_to_string("/proc/cpuinfo")
        .map(|text| text.lines().filter(|line| line.starts_with("processor")).count())
        .unwrap_or(0)
}

/// The lanes of a server: one entry a lane, holding the CPU that it is pinned to, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) lanes: Vec<Option<usize>>,
    /// Why lanes are not pinned, for the log; `None` when they are or when it was asked for.
    pub(crate) unpinned_because: Option<String>,
}

/// Decides the number of lanes and their CPUs.
pub(crate) fn plan(view: &CpuView, lanes: Lanes, pin: Pin) -> Result<Plan, String> {
    let cpus = &view.affinity;
    if cpus.is_empty() {
        return Err("the affinity mask of this process is empty".to_owned());
    }
    let count = match lanes {
        Lanes::Auto => cpus.len(),
        Lanes::Count(n) if (1..=MAX_LANES).contains(&n) => n,
        Lanes::Count(n) => return Err(format!("{n} lanes: allowed are 1 to {MAX_LANES}")),
    };
    let because = match pin {
        Pin::Off => None,
        Pin::On if count > cpus.len() => {
            return Err(format!(
                "cannot pin {count} lanes: the affinity mask has only {} CPUs ({cpus:?})",
                cpus.len()
            ));
        }
        Pin::Auto if lanes == Lanes::Auto => Some("the number of lanes was not set".to_owned()),
        Pin::Auto if count != cpus.len() => {
            Some(format!("{count} lanes share {} CPUs", cpus.len()))
        }
        Pin::Auto if cpus.len() >= view.online => {
            Some(format!("the mask holds all {} CPUs of the machine", view.online))
        }
        Pin::On | Pin::Auto => {
            let lanes = cpus.iter().take(count).map(|&cpu| Some(cpu)).collect();
            return Ok(Plan { lanes, unpinned_because: None });
        }
    };
    Ok(Plan { lanes: vec![None; count], unpinned_because: because })
}

/// Pins the calling thread to `cpu`.
pub(crate) fn pin_current_thread(cpu: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(affinity: &[usize], online: usize) -> CpuView {
        CpuView { affinity: affinity.to_vec(), online }
    }

    #[test]
    fn number_of_lanes_and_pins() {
        let none = None::<usize>;
        let cases = [
            // (affinity, online, lanes, pin) -> lanes
            (vec![0, 1], 2, Lanes::Auto, Pin::Auto, vec![none, none]),
            (vec![0, 1], 2, Lanes::Auto, Pin::On, vec![Some(0), Some(1)]),
            (vec![4, 5, 9], 16, Lanes::Auto, Pin::On, vec![Some(4), Some(5), Some(9)]),
            (vec![4, 5, 9], 16, Lanes::Count(2), Pin::On, vec![Some(4), Some(5)]),
            (vec![4, 5, 9], 16, Lanes::Count(2), Pin::Off, vec![none, none]),
            // A pod that owns its CPUs: as many as it was told, fewer than the machine has.
            (vec![3, 7], 8, Lanes::Count(2), Pin::Auto, vec![Some(3), Some(7)]),
            // Not ours alone: the whole machine, or a mask that does not match the setting.
            (vec![0, 1], 2, Lanes::Count(2), Pin::Auto, vec![none, none]),
            (vec![0, 1, 2], 8, Lanes::Count(1), Pin::Auto, vec![none]),
            (vec![1], 2, Lanes::Count(3), Pin::Auto, vec![none, none, none]),
        ];
        for (affinity, online, lanes, pin, want) in cases {
            let got = plan(&view(&affinity, online), lanes, pin).map(|plan| plan.lanes);
            assert_eq!(got, Ok(want), "{affinity:?} of {online}, {lanes}, {pin}");
        }
    }

    #[test]
    fn unpinned_lanes_have_a_reason_unless_asked_for() {
        let reason = |pin| plan(&view(&[0, 1], 2), Lanes::Auto, pin).map(|p| p.unpinned_because);
        assert!(reason(Pin::Auto).is_ok_and(|why| why.is_some()));
        assert_eq!(reason(Pin::Off), Ok(None));
        assert_eq!(reason(Pin::On), Ok(None));
    }

    #[test]
    fn impossible_plans_are_refused() {
        assert!(plan(&view(&[2], 4), Lanes::Count(2), Pin::On).is_err_and(|e| e.contains("[2]")));
        assert!(plan(&view(&[], 4), Lanes::Auto, Pin::Auto).is_err());
        assert!(plan(&view(&[0], 4), Lanes::Count(0), Pin::Auto).is_err());
    }
}
