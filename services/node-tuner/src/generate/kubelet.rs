//! A kubelet configuration snippet, and how to apply it.

use super::comment;
use crate::catalogue::{self, Place, Value};
use crate::profile::Profile;

const STEPS: &str = "\
# The kubelet refuses to start with another CPU manager policy or other reserved CPUs than in its state file.
# For each node, one after the other:
#   1. kubectl drain NODE --ignore-daemonsets --delete-emptydir-data
#   2. systemctl stop kubelet
#   3. merge this into the kubelet's configuration (mostly /var/lib/kubelet/config.yaml). Lists replace those
#      that are there: keep what else allowedUnsafeSysctls has. From Kubernetes 1.30 on it may instead be a
#      file NAME.conf in the folder of --config-dir
#   4. rm /var/lib/kubelet/cpu_manager_state; with the static memory manager also memory_manager_state next to it
#   5. systemctl start kubelet
#   6. kubectl uncordon NODE
";

/// Fails if the CPUs to reserve are not set.
///
/// Includes unsafe sysctls only with `with_unsafe`, because all pods on the node may then set them.
pub(super) fn snippet(
    profile: &Profile,
    housekeeping: &str,
    with_unsafe: bool,
) -> Result<String, String> {
    let command = if with_unsafe { " --unsafe" } else { "" };
    let name = &profile.name;
    let mut text = comment(
        "",
        &format!("For the kubelet, profile {name}: node-tuner generate kubelet{command}"),
    );
    text += STEPS;
    text += "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    for knob in catalogue::knobs() {
        let (Place::Kubelet(field), Some(value)) = (knob.place, profile.wanted(knob)) else {
            continue;
        };
        if field == "allowedUnsafeSysctls" && value == Value::Auto && !with_unsafe {
            continue;
        }
        let value = match (value, field) {
            (Value::Auto, "reservedSystemCPUs") => match housekeeping {
                "" => return Err(NOT_SAID.to_owned()),
                cpus => format!("{cpus:?}"),
            },
            (Value::Auto, _) => list(&profile.unsafe_sysctls()),
            (Value::Names(names), "cpuManagerPolicyOptions") => options(&names),
            (Value::Names(names), _) => list(&names),
            (Value::Cpus(cpus), _) => format!("{:?}", cpus.list()),
            (value, _) => value.text(),
        };
        let reason = knob.reason.replace("auto: ", "Here: ");
        text += &comment("", &format!("{}. {reason}. Risk: {}", knob.summary, knob.risk));
        // A map starts on the next line.
        let space = if value.starts_with('\n') { "" } else { " " };
        text += &format!("{field}:{space}{value}\n");
    }
    Ok(text)
}

const NOT_SAID: &str = "housekeeping = \"\": the static policy needs reserved CPUs; say which, such as \
                        --housekeeping=0-1: whole cores, which also take the interrupts";

fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    format!("[{}]", names.join(", "))
}

fn options(pairs: &[String]) -> String {
    let option = |pair: &String| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
        format!("\n  {name}: {value:?}")
    };
    pairs.iter().map(option).collect()
}
