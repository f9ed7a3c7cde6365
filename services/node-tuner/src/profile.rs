//! A node's wanted values: its profile and overrides.

use std::collections::BTreeMap;

use crate::catalogue::{self, Knob, Place, Role, Value};

const OFF: &str = "off";

/// All profiles except `custom`, in the order of the catalogue's values.
pub(crate) const PROFILES: [&str; 3] = ["web-10k", "web-100k", "web-1m"];

#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: String,
    index: Option<usize>,
    named: BTreeMap<String, String>,
}

impl Profile {
    /// The errors name each wrong setting with its value and the expected values.
    pub(crate) fn new(
        name: &str,
        named: &BTreeMap<String, String>,
    ) -> Result<Profile, Vec<String>> {
        let errors = named.iter().filter_map(|(name, value)| check(name, value).err());
        let errors: Vec<_> = errors.collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let profile = Profile {
            name: name.to_owned(),
            index: PROFILES.iter().position(|it| *it == name),
            named: named.clone(),
        };
        match (profile.nofile(), profile.number("fs.nr_open")) {
            (Some(nofile), Some(most)) if nofile > most => Err(vec![format!(
                "containerd.nofile = {nofile} must not exceed fs.nr_open = {most}"
            )]),
            _ => Ok(profile),
        }
    }

    /// `None` for pod settings.
    pub(crate) fn wanted(&self, knob: &Knob) -> Option<Value> {
        let text = match (self.named.get(knob.name), self.index) {
            (Some(named), _) => named,
            (None, Some(index)) => knob.values[index],
            (None, None) => "",
        };
        // Overrides were checked earlier, and tests check the catalogue.
        knob.kind.parse(text).ok()
    }

    pub(crate) fn sysctls(&self, role: Role) -> Vec<(&'static Knob, &'static str)> {
        let value = |knob: &'static Knob| match (knob.place, self.index) {
            (Place::Pod(pods), Some(index)) => Some((knob, pods.of(role)[index])),
            _ => None,
        };
        catalogue::knobs().filter_map(value).filter(|(_, value)| !value.is_empty()).collect()
    }

    pub(crate) fn unsafe_sysctls(&self) -> Vec<&'static str> {
        let is_unsafe = |knob: &&'static Knob| match knob.place {
            Place::Pod(pods) => pods.safe.is_none(),
            _ => false,
        };
        let both = [Role::Service, Role::Gateway].map(|role| self.sysctls(role)).concat();
        let names = both.iter().map(|(knob, _)| *knob).filter(is_unsafe).map(|knob| knob.name);
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn nofile(&self) -> Option<u64> {
        self.number("containerd.nofile")
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.wanted(catalogue::find(name)?)? {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }
}

fn check(name: &str, value: &str) -> Result<(), String> {
    let refuse = |words: String| Err(format!("knobs: {name} = {value:?}: {words}"));
    let Some(knob) = catalogue::find(name) else {
        let close = match catalogue::close(name).as_slice() {
            [] => "`node-tuner knobs` lists all".to_owned(),
            close => format!("did you mean {}?", close.join(" or ")),
        };
        return refuse(format!("unknown setting; {close}"));
    };
    if name == "net.ipv4.tcp_migrate_req" {
        return refuse(MIGRATE_REQ.to_owned());
    }
    if let Place::Pod(pods) = knob.place {
        return refuse(belongs_to_pods(name, value, pods.safe));
    }
    match knob.kind.parse(value) {
        _ if value == OFF => Ok(()),
        Ok(_) => Ok(()),
        Err(allowed) => refuse(format!("expected {allowed}, or off")),
    }
}

/// Before Linux commit 3864c6b, a moved connection did not wake its new listener.
const MIGRATE_REQ: &str = "leave it off, also in pods: on kernels without its fix, a connection that moves to \
                           another listener does not wake it; a replica that drains does not need it";

/// Reason why a host profile cannot set the value, and how to set it instead.
fn belongs_to_pods(name: &str, value: &str, safe: Option<&str>) -> String {
    let how = match safe {
        Some("") => format!("set `sysctls: {{{name}: {value:?}}}`"),
        Some(version) => {
            format!("set `sysctls: {{{name}: {value:?}}}`, from Kubernetes {version} on")
        }
        None => format!(
            "set `unsafeSysctls: {{{name}: {value:?}}}`, and allow it to the kubelet of these nodes \
             (`node-tuner generate kubelet`)"
        ),
    };
    format!(
        "not a setting of the host: every pod has its own, which begins with the kernel's value. It belongs to \
         the values of charts/service or charts/gateway: {how}. `node-tuner generate service` and `node-tuner \
         generate gateway` show those of a profile"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(index: Option<usize>, named: &[(&str, &str)]) -> Profile {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Profile { name: "a".to_owned(), index, named: named.iter().map(pair).collect() }
    }

    fn wanted(profile: &Profile, name: &str) -> Option<Value> {
        profile.wanted(catalogue::find(name).expect(name))
    }

    #[test]
    fn what_is_named_wins_over_the_profile() {
        let custom = [("fs.file-max", "300000"), ("fs.nr_open", "off")];
        for (index, named, name, value) in [
            (Some(0), &[][..], "fs.file-max", Some(Value::Number(1_000_000))),
            (Some(2), &[], "fs.file-max", Some(Value::Number(8_000_000))),
            (Some(2), &custom, "fs.file-max", Some(Value::Number(300_000))),
            (Some(2), &custom, "fs.nr_open", None),
            (None, &custom, "fs.file-max", Some(Value::Number(300_000))),
            (None, &custom, "irq.affinity", None),
            (Some(0), &[], "irq.affinity", Some(Value::Auto)),
            (Some(0), &[], "cpu.governor", None),
            (Some(0), &[], "net.core.somaxconn", None),
        ] {
            assert_eq!(wanted(&profile(index, named), name), value, "{name} of {index:?}");
        }
    }

    #[test]
    fn containers_need_as_many_files_as_the_profile_says() {
        let nofile = |index, named| profile(index, named).nofile();
        assert_eq!(
            [0, 1, 2].map(|it| nofile(Some(it), &[])),
            [100_000, 262_144, 2_097_152].map(Some)
        );
        assert_eq!(nofile(None, &[]), None);
        assert_eq!(nofile(None, &[("containerd.nofile", "5000")]), Some(5000));
    }

    #[test]
    fn unsafe_sysctls_are_named_once() {
        let names = ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "net.ipv4.tcp_tw_reuse"];
        assert_eq!(profile(Some(0), &[]).unsafe_sysctls(), names);
        assert!(profile(None, &[]).unsafe_sysctls().is_empty());
    }

    #[test]
    fn every_sysctl_of_pods_is_refused_with_the_chart_that_takes_it() {
        for knob in catalogue::knobs() {
            let result = check(knob.name, "auto");
            match knob.place {
                Place::Pod(_) if knob.name == "net.ipv4.tcp_migrate_req" => {
                    let words = result.expect_err(knob.name);
                    assert!(words.contains("leave it off"), "{words}");
                }
                Place::Pod(pods) => {
                    let words = result.expect_err(knob.name);
                    let key = if pods.safe.is_some() { "`sysctls: {" } else { "`unsafeSysctls: {" };
                    assert!(words.contains(key) && words.contains("charts/service"), "{words}");
                }
                _ => assert_eq!(check(knob.name, OFF), Ok(()), "{}", knob.name),
            }
        }
    }
}
