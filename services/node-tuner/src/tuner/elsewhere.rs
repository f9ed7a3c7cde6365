//! Settings outside the host: their state, if readable, and instructions.

use super::aims::Sight;
use crate::catalogue::{self, Knob, Place, Role, Value};
use crate::kubelet::Kubelet;
use crate::node::{limit, named};
use crate::report::{Row, State};

impl Sight<'_> {
    /// Rows for settings of pods, the kubelet, the container runtime and the kernel command line.
    pub(super) fn elsewhere(&self, kubelet: Option<&Kubelet>) -> Vec<Row> {
        let mut rows = Vec::new();
        for role in [Role::Service, Role::Gateway] {
            for (knob, value) in self.profile.sysctls(role) {
                let mut row = row(knob, value.to_owned());
                role.name().clone_into(&mut row.target);
                row.reason = of_pods(knob, role);
                rows.push(row);
            }
        }
        for knob in catalogue::knobs() {
            let Some(value) = self.profile.wanted(knob) else { continue };
            rows.extend(match knob.place {
                Place::Kubelet(field) => Some(self.of_kubelet(knob, field, &value, kubelet)),
                Place::Containerd => Some(self.of_containerd(knob, &value)),
                Place::Boot(sysctl) => Some(self.of_boot(knob, sysctl, &value)),
                _ => None,
            });
        }
        rows
    }

    fn of_kubelet(
        &self,
        knob: &'static Knob,
        field: &str,
        value: &Value,
        kubelet: Option<&Kubelet>,
    ) -> Row {
        let wanted = match (value, field) {
            (Value::Auto, "reservedSystemCPUs") => match &self.node.housekeeping {
                Ok(cpus) => Value::Cpus(cpus.clone()),
                Err(why) => {
                    let skipped = Row { state: State::Skipped, ..row(knob, String::new()) };
                    return Row { reason: why.clone(), ..skipped };
                }
            },
            (Value::Auto, _) => {
                let names = self.profile.unsafe_sysctls();
                Value::Names(names.into_iter().map(str::to_owned).collect())
            }
            (value, _) => value.clone(),
        };
        let mut row = row(knob, wanted.text());
        "`node-tuner generate kubelet` prints it, and how to apply it".clone_into(&mut row.reason);
        if let Some(kubelet) = kubelet {
            row.actual = Some(kubelet.text(field));
            if kubelet.has(field, &wanted) {
                row.state = State::Ok;
                row.reason.clear();
            }
        }
        row
    }

    fn of_containerd(&self, knob: &'static Knob, value: &Value) -> Row {
        let mut row = row(knob, value.text());
        let limit = named(self.tree, "containerd").first().map(|it| limit(self.tree, it));
        let what = "`node-tuner generate containerd` prints a drop-in for systemd";
        match limit {
            None => row.reason = format!("containerd was not found; {what}"),
            Some(None) => row.reason = format!("the limits of containerd may not be read; {what}"),
            Some(Some(limit)) => {
                row.actual = Some(limit.to_string());
                row.reason = what.to_owned();
                if matches!(value, Value::Number(wanted) if limit >= *wanted) {
                    row.state = State::Ok;
                    row.reason.clear();
                }
            }
        }
        row
    }

    fn of_boot(&self, knob: &'static Knob, sysctl: &str, value: &Value) -> Row {
        let mut row = row(knob, value.text());
        "`node-tuner generate boot` prints the parameters for the kernel's command line"
            .clone_into(&mut row.reason);
        let text = self.tree.text(&format!("/proc/sys/{}", sysctl.replace('.', "/")));
        // Negative in a network namespace that shares the host's table.
        let number = text.ok().and_then(|it| it.trim_start_matches('-').parse::<u64>().ok());
        if let Some(number) = number {
            row.actual = Some(number.to_string());
            if matches!(value, Value::Number(wanted) if number >= *wanted) {
                row.state = State::Ok;
                row.reason.clear();
            }
        }
        row
    }
}

fn row(knob: &'static Knob, wanted: String) -> Row {
    Row {
        name: knob.name,
        class: knob.class(),
        target: String::new(),
        wanted,
        actual: None,
        state: State::Elsewhere,
        reason: String::new(),
        changed_from: None,
        leaving: false,
    }
}

fn of_pods(knob: &Knob, role: Role) -> String {
    let name = role.name();
    match knob.place {
        Place::Pod(pods) if pods.safe.is_none() => format!(
            "unsafeSysctls of charts/{name}, if the kubelet allows it: `node-tuner generate {name} --unsafe`"
        ),
        _ => format!("sysctls of charts/{name}: `node-tuner generate {name}`"),
    }
}
