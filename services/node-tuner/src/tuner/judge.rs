//! Determines the state of each host setting.

use std::io;

use super::aims::{Aim, Sight};
use super::check::check;
use super::journal::{Entry, Journal};
use super::{Setting, rule};
use crate::catalogue::{self, Class, Knob, Place, Rule, Value};
use crate::report::{Row, State};

/// One setting: its state, and the content that would change it.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) knob: &'static Knob,
    pub(super) path: String,
    pub(super) row: Row,
    /// `None` if the file is missing or unreadable.
    pub(super) now: Option<Vec<u8>>,
    pub(super) desired: Vec<u8>,
    /// Additional instructions for a file that already has the wanted value.
    note: String,
}

/// Settings that kube-proxy writes at start (`conntrack` in its configuration).
const OF_KUBE_PROXY: [&str; 3] = [
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
];

const MOST_OF_KUBE_PROXY: u64 = 1_048_576;

impl Sight<'_> {
    pub(super) fn judge_all(&self, journal: &Journal) -> Vec<Judged> {
        let hosts = catalogue::knobs().filter(|knob| knob.class() == Class::Host);
        let wanted = hosts.filter_map(|knob| Some((knob, self.profile.wanted(knob)?)));
        let aims = wanted.flat_map(|(knob, wanted)| self.aims(knob, &wanted));
        aims.map(|aim| self.judge(aim, journal)).collect()
    }

    fn judge(&self, aim: Aim, journal: &Journal) -> Judged {
        let entry = journal.entry(aim.knob.name, &aim.path).filter(|it| check(it).is_ok());
        let read = match aim.path.as_str() {
            "" => Err(io::ErrorKind::NotFound.into()),
            path => self.tree.read(path),
        };
        let knob = aim.knob;
        let mut judged = Judged {
            row: Row {
                name: knob.name,
                class: Class::Host,
                target: aim.target,
                wanted: aim.wanted.as_ref().map(Value::text).unwrap_or_default(),
                actual: read.as_ref().ok().map(|now| rule::shown(knob.rule, now)),
                state: State::Skipped,
                reason: String::new(),
                changed_from: None,
                leaving: false,
            },
            knob,
            path: aim.path,
            now: None,
            desired: Vec::new(),
            note: String::new(),
        };
        match (read, aim.wanted) {
            (Err(error), wanted) if error.kind() == io::ErrorKind::NotFound => {
                judged.row.reason = wanted.err().unwrap_or_else(|| missing(knob).to_owned());
            }
            (Ok(now), Err(why)) => {
                judged.pointless(why, &now, entry);
                judged.now = Some(now);
            }
            (Err(_), Err(why)) => judged.row.reason = why,
            (Err(error), Ok(_)) => {
                judged.row.state = State::Unknown;
                judged.row.reason = error.to_string();
            }
            (Ok(now), Ok(wanted)) => {
                let original = entry.map_or(now.as_slice(), |it| it.original.bytes());
                judged.desired = rule::desired(knob.rule, &wanted, original);
                self.compare(&mut judged, &wanted, &now, entry);
                judged.now = Some(now);
            }
        }
        judged
    }

    fn compare(&self, judged: &mut Judged, wanted: &Value, now: &[u8], entry: Option<&Entry>) {
        let rule = judged.knob.rule;
        judged.row.wanted = rule::shown(rule, &judged.desired);
        judged.note = self.note(judged.knob, &judged.desired);
        let written = entry.map(|it| it.written.bytes());
        if rule::satisfied(rule, &judged.desired, now, written) {
            judged.row.state = State::Ok;
            judged.row.reason.clone_from(&judged.note);
            // A higher current limit is kept, even if the profile wants less.
            if rule == Rule::AtLeast {
                judged.row.wanted = wanted.text();
            }
        } else if self.node.kube_proxy && OF_KUBE_PROXY.contains(&judged.knob.name) {
            judged.row.state = State::Owned;
            judged.row.reason = self.of_kube_proxy(judged.knob, &judged.row.wanted);
        } else if entry.is_some_and(|it| it.refused && it.original.bytes() == now) {
            judged.row.reason = super::aims::MANAGED.to_owned();
        } else {
            judged.row.state = State::Differs;
        }
    }

    /// Additional instructions for a file that already has the wanted value.
    fn note(&self, knob: &Knob, desired: &[u8]) -> String {
        let irqbalance = &self.node.irqbalance;
        let banned = crate::node::banned(&String::from_utf8_lossy(desired));
        let knows = irqbalance.bans.as_ref().is_some_and(|it| banned.within(it));
        match matches!(knob.place, Place::Irqbalance) && irqbalance.runs && !knows {
            true => "restart irqbalance: it reads its file only when it starts".to_owned(),
            false => String::new(),
        }
    }

    fn of_kube_proxy(&self, knob: &Knob, wanted: &str) -> String {
        let field = match knob.name.rsplit('_').next() {
            Some("wait") => format!("conntrack.tcpCloseWaitTimeout to {wanted}s"),
            Some("established") => format!("conntrack.tcpEstablishedTimeout to {wanted}s"),
            _ => {
                let wanted: u64 = wanted.parse().unwrap_or(0);
                let cpus = (self.node.cpus.len() as u64).max(1);
                match wanted > MOST_OF_KUBE_PROXY {
                    true => format!("conntrack.min to {wanted}, above what it makes of maxPerCore"),
                    false => {
                        format!("conntrack.maxPerCore to {} ({cpus} CPUs)", wanted.div_ceil(cpus))
                    }
                }
            }
        };
        format!("kube-proxy sets it when it starts: set its {field}")
    }
}

impl Judged {
    pub(super) fn setting(&self) -> Setting {
        (self.knob.name, self.row.target.clone())
    }

    /// Marks a setting that does not apply here. If this program has changed the setting, the
    /// original value is wanted.
    fn pointless(&mut self, why: String, now: &[u8], entry: Option<&Entry>) {
        match entry.filter(|it| it.original.bytes() != now) {
            None => self.row.reason = why,
            Some(entry) => self.row = put_back(entry, self.knob, now, &why),
        }
    }

    /// Whether to keep the journal entry; otherwise the original is restored.
    pub(super) fn keeps(&self, entry: &Entry) -> bool {
        let same = self.knob.name == entry.name && self.path == entry.path;
        // Without a desired value, the setting does not apply here.
        same && (!self.desired.is_empty() || self.row.state == State::Unknown)
    }

    /// Updates the row after the file was written and read back.
    pub(super) fn written(&mut self, result: &io::Result<Vec<u8>>) {
        let rule = self.knob.rule;
        let before = self.row.actual.clone();
        match result {
            Ok(now) if rule::satisfied(rule, &self.desired, now, None) => {
                self.row.state = State::Ok;
                self.row.reason.clone_from(&self.note);
                self.row.actual = Some(rule::shown(rule, now));
                self.row.changed_from = before.filter(|it| Some(it) != self.row.actual.as_ref());
            }
            Ok(now) => {
                self.row.state = State::Failed;
                self.row.actual = Some(rule::shown(rule, now));
                self.row.reason = "the kernel took the value, but shows another".to_owned();
            }
            // Drivers distribute these interrupts themselves
            // (Documentation/core-api/irq/managed_irq.rst).
            Err(_) if self.refused_by_kernel(result) => {
                self.row.state = State::Skipped;
                self.row.reason = super::aims::MANAGED.to_owned();
            }
            Err(error) => {
                self.row.state = State::Failed;
                self.row.reason = error.to_string();
            }
        }
    }

    /// Whether the kernel forbids moving the interrupt: it returns EIO, or EPERM in newer kernels.
    pub(super) fn refused_by_kernel(&self, result: &io::Result<Vec<u8>>) -> bool {
        use rustix::io::Errno;
        let code = result.as_ref().err().and_then(io::Error::raw_os_error);
        let known = [Errno::IO, Errno::PERM].map(Errno::raw_os_error);
        self.knob.rule == Rule::Within && code.is_some_and(|it| known.contains(&it))
    }
}

/// The row of a restored setting.
pub(super) fn put_back(entry: &Entry, knob: &'static Knob, now: &[u8], why: &str) -> Row {
    Row {
        name: knob.name,
        class: Class::Host,
        target: entry.target.clone(),
        wanted: rule::shown(knob.rule, entry.original.bytes()),
        actual: Some(rule::shown(knob.rule, now)),
        state: State::Differs,
        reason: format!("{why}: gets back what was there"),
        changed_from: None,
        leaving: true,
    }
}

/// Reason why a file does not exist.
fn missing(knob: &Knob) -> &'static str {
    match knob.place {
        Place::Sysctl if knob.name.contains("nf_conntrack") => {
            "the kernel follows no connections: its module nf_conntrack is not loaded"
        }
        Place::File(path) if path.starts_with("/dev/") => {
            "no such device, or none that a container without privileges could see"
        }
        Place::Sysctl if knob.name.starts_with("net.") => {
            "this kernel has none, or only the network namespace of the host has it"
        }
        _ => "this kernel has none",
    }
}
