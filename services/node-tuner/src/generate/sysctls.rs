//! Values for the pods' charts.

use super::comment;
use crate::catalogue::{Knob, Place, Role};
use crate::profile::Profile;

pub(super) fn values(profile: &Profile, role: Role, with_unsafe: bool) -> String {
    let all = profile.sysctls(role);
    let safe = |knob: &Knob| match knob.place {
        Place::Pod(pods) => pods.safe,
        _ => None,
    };
    let command = if with_unsafe { " --unsafe" } else { "" };
    let name = role.name();
    let mut text = comment(
        "",
        &format!(
            "Values of charts/{name}, profile {}: node-tuner generate {name}{command}",
            profile.name
        ),
    );
    let (safe_ones, unsafe_ones): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(knob, _)| safe(knob).is_some());
    text += &map("sysctls", &safe_ones, |knob| match safe(knob) {
        Some("") | None => String::new(),
        Some(version) => format!(". Any pod may set it from Kubernetes {version} on"),
    });
    if with_unsafe {
        text += &comment(
            "",
            "Pods with these start only where the kubelet allows them: node-tuner generate kubelet",
        );
        text += &map("unsafeSysctls", &unsafe_ones, |_| String::new());
        text += &accepting(role, &unsafe_ones);
    }
    text
}

/// Values that make use of the longer queue, because each listener requests its own queue length.
/// Accepted connections wait for a slot or are rejected with 503.
fn accepting(role: Role, sysctls: &[(&'static Knob, &'static str)]) -> String {
    let longest = sysctls.iter().find(|(knob, _)| knob.name == "net.core.somaxconn");
    match (role, longest) {
        (Role::Service, Some((_, length))) => {
            let words = "The server requests a queue of this length. What it accepts from it waits \
                         for a slot, and above limits.queue it is rejected with 503";
            let why = comment("", words);
            format!("{why}config:\n  backlog: {length}\n  limits:\n    queue: {length}\n")
        }
        (Role::Gateway, Some((_, length))) => {
            let why = comment("", "Envoy requests a queue of this length");
            format!("{why}listener:\n  backlog: {length}\n")
        }
        (_, None) => String::new(),
    }
}

fn map(
    key: &str,
    sysctls: &[(&'static Knob, &'static str)],
    more: impl Fn(&Knob) -> String,
) -> String {
    if sysctls.is_empty() {
        return format!("{key}: {{}}\n");
    }
    let line = |(knob, value): &(&'static Knob, &'static str)| {
        let why = comment("  ", &format!("{}. {}{}", knob.summary, knob.reason, more(knob)));
        format!("{why}  {}: \"{value}\"\n", knob.name)
    };
    format!("{key}:\n{}", sysctls.iter().map(line).collect::<String>())
}
