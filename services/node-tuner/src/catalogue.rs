//! All settings: where each belongs, its values in the profiles, and why.

mod elsewhere;
mod host;
mod pod;
mod value;

use serde::Serialize;

pub(crate) use pod::{Pods, Role};
pub(crate) use value::{Kind, Value};

/// Wanted by web-10k, web-100k and web-1m; empty: left alone.
pub(crate) type Values = [&'static str; 3];

/// Left alone by all profiles: a matter of choice.
pub(crate) const CHOSEN: Values = ["", "", ""];

/// The same for all profiles.
pub(crate) const fn all(value: &'static str) -> Values {
    [value, value, value]
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) rule: Rule,
    pub(crate) place: Place,
    pub(crate) values: Values,
    /// What it does.
    pub(crate) summary: &'static str,
    /// Why these values.
    pub(crate) reason: &'static str,
    /// Where that is written.
    pub(crate) source: &'static str,
    /// What it may cost.
    pub(crate) risk: &'static str,
}

/// When a file is as wanted, and what is written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A limit that is never lowered.
    AtLeast,
    /// Exactly this number.
    Exact,
    /// The word in brackets of `always [madvise] never`, or the only one.
    Choice,
    /// A mask of CPUs.
    Mask,
    /// A list of CPUs: any of the wanted ones will do.
    Within,
    /// One line of a file whose others are kept.
    Line,
    /// Lasts as long as the file is open.
    Held,
    /// Not written by this program.
    Shown,
}

/// Where the files of a setting are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Below /proc/sys, by its name.
    Sysctl,
    /// One file.
    File(&'static str),
    /// A file of every queue that receives.
    Receiving(&'static str),
    /// A file of every queue that sends.
    Sending(&'static str),
    /// Every interrupt of a network device.
    Interrupts,
    /// The file that irqbalance is started with.
    Irqbalance,
    /// Every policy of the CPUs' frequency.
    Governors,
    /// The network namespace of pods.
    Pod(Pods),
    /// A field of the kubelet's configuration.
    Kubelet(&'static str),
    /// The limits of the process containerd.
    Containerd,
    /// A word of the kernel's command line, checked by the sysctl.
    Boot(&'static str),
}

/// Where a setting belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    /// Settings of the machine: written by `apply`.
    Host,
    /// Sysctls of each pod's own network namespace.
    Pod,
    /// The kubelet's configuration.
    Kubelet,
    /// That of the container runtime.
    Runtime,
    /// The kernel's command line.
    Boot,
}

impl Class {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Class::Host => "host",
            Class::Pod => "pod",
            Class::Kubelet => "kubelet",
            Class::Runtime => "runtime",
            Class::Boot => "boot",
        }
    }
}

impl Knob {
    /// Where it belongs.
    pub(crate) fn class(&self) -> Class {
        match self.place {
            Place::Pod(_) => Class::Pod,
            Place::Kubelet(_) => Class::Kubelet,
            Place::Containerd => Class::Runtime,
            Place::Boot(_) => Class::Boot,
            _ => Class::Host,
        }
    }
}

/// All settings, in the order in which they are written.
pub(crate) fn knobs() -> impl Iterator<Item = &'static Knob> {
    let host = host::LIMITS.iter().chain(host::NETWORK).chain(host::CPUS);
    host.chain(pod::KNOBS).chain(elsewhere::KNOBS)
}

/// The setting of this name.
pub(crate) fn find(name: &str) -> Option<&'static Knob> {
    knobs().find(|knob| knob.name == name)
}

/// Names that look like this one, the closest first.
pub(crate) fn close(name: &str) -> Vec<&'static str> {
    let end = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    // Names may lack what is before the last dot.
    let likeness = |known: &str| {
        strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(&end(name), &end(known)) - 0.01)
    };
    let mut found: Vec<_> = knobs().map(|knob| (likeness(knob.name), knob.name)).collect();
    found.retain(|(likeness, _)| *likeness > 0.88);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
