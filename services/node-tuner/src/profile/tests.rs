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
    assert_eq!([0, 1, 2].map(|it| nofile(Some(it), &[])), [100_000, 262_144, 2_097_152].map(Some));
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
                assert!(words.contains(key) && words.contains("charts/server"), "{words}");
            }
            _ => assert_eq!(check(knob.name, OFF), Ok(()), "{}", knob.name),
        }
    }
}
