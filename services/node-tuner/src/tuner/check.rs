//! Checks the journal against the catalogue. A restore writes as root, so a damaged or forged
//! journal must not decide which file is written or what is written to it.

use std::io;

use super::journal::Entry;
use crate::catalogue::{self, Kind, Knob, Place, Rule};
use crate::cpus::Cpus;
use crate::node::{IRQBALANCE_FILES, differ_only_in_bans};

const DEVICE: &str = "<device>";
const NUMBER: &str = "<number>";

const QUOTED: usize = 80;

/// Whether the original of an entry may be restored. The error does not repeat the path.
pub(super) fn check(entry: &Entry) -> io::Result<()> {
    let refused = |words: String| Err(io::Error::new(io::ErrorKind::InvalidData, words));
    let Some(knob) = catalogue::find(&entry.name) else {
        let name = quoted(entry.name.as_bytes());
        return refused(format!(
            "the journal names the setting {name}; expected a setting of this version"
        ));
    };
    let paths = paths(knob);
    if !paths.iter().any(|pattern| is_path(pattern, &entry.path)) {
        let allowed = if paths.is_empty() { "none".to_owned() } else { paths.join(", ") };
        return refused(format!("the journal has this path for {}; expected {allowed}", knob.name));
    }
    if !has_form(knob, entry) {
        return refused(format!(
            "the journal has the original {} for {}; expected {}",
            quoted(entry.original.bytes()),
            knob.name,
            form(knob)
        ));
    }
    Ok(())
}

fn paths(knob: &Knob) -> Vec<String> {
    let queues = |kind: &str, file: &str| {
        vec![format!("/sys/class/net/{DEVICE}/queues/{kind}-{NUMBER}/{file}")]
    };
    match knob.place {
        Place::Sysctl => vec![format!("/proc/sys/{}", knob.name.replace('.', "/"))],
        Place::File(path) => vec![path.to_owned()],
        Place::Receiving(file) => queues("rx", file),
        Place::Sending(file) => queues("tx", file),
        Place::Interrupts => vec![format!("/proc/irq/{NUMBER}/smp_affinity_list")],
        Place::Irqbalance => IRQBALANCE_FILES.map(str::to_owned).to_vec(),
        Place::Governors => {
            vec![format!("/sys/devices/system/cpu/cpufreq/policy{NUMBER}/scaling_governor")]
        }
        Place::Pod(_) | Place::Kubelet(_) | Place::Containerd | Place::Boot(_) => Vec::new(),
    }
}

fn is_path(pattern: &str, path: &str) -> bool {
    pattern.split('/').count() == path.split('/').count()
        && pattern.split('/').zip(path.split('/')).all(|(wanted, name)| is_name(wanted, name))
}

fn is_name(wanted: &str, name: &str) -> bool {
    if wanted == DEVICE {
        return !["", ".", ".."].contains(&name);
    }
    match wanted.strip_suffix(NUMBER) {
        None => name == wanted,
        Some(stem) => name.strip_prefix(stem).is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        }),
    }
}

/// Whether the original has the kernel's form of this setting. The profile's range does not apply,
/// because originals may be outside it.
fn has_form(knob: &Knob, entry: &Entry) -> bool {
    let bytes = entry.original.bytes();
    if knob.rule == Rule::Held {
        return bytes.len() == size_of::<i32>();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match knob.rule {
        Rule::AtLeast | Rule::Exact => {
            let numbers: Vec<_> = text.split_whitespace().map(str::parse::<i128>).collect();
            numbers.len() == how_many(knob) && numbers.iter().all(Result::is_ok)
        }
        Rule::Choice => {
            let mut words = text.split_whitespace().peekable();
            words.peek().is_some() && words.all(is_word)
        }
        Rule::Mask => Cpus::from_mask(text).is_some(),
        Rule::Within => Cpus::from_list(text).is_some(),
        Rule::Line => std::str::from_utf8(entry.written.bytes())
            .is_ok_and(|written| differ_only_in_bans(text, written)),
        Rule::Held | Rule::Shown => false,
    }
}

fn how_many(knob: &Knob) -> usize {
    if matches!(knob.kind, Kind::Three { .. }) { 3 } else { 1 }
}

/// Whether the text is a word, or a chosen word in brackets.
fn is_word(word: &str) -> bool {
    let chosen = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let word = chosen.unwrap_or(word);
    !word.is_empty() && word.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-".contains(&it))
}

fn form(knob: &Knob) -> &'static str {
    match knob.rule {
        Rule::AtLeast | Rule::Exact if how_many(knob) == 3 => "three whole numbers",
        Rule::AtLeast | Rule::Exact => "a whole number",
        Rule::Choice => "words, such as always [madvise] never",
        Rule::Mask => "a mask of CPUs",
        Rule::Within => "a list of CPUs",
        Rule::Line => "the written file with another list or mask of CPUs",
        Rule::Held => "four bytes",
        Rule::Shown => "none",
    }
}

fn quoted(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(QUOTED).collect();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(name: &str, path: &str, original: &[u8]) -> Result<(), String> {
        let content = original.to_vec();
        let entry = Entry {
            name: name.to_owned(),
            target: String::new(),
            path: path.to_owned(),
            original: content.clone().into(),
            written: content.into(),
            pending: None,
            lasting: false,
            refused: false,
        };
        check(&entry).map_err(|error| error.to_string())
    }

    const BACKLOG: &str = "net.core.netdev_max_backlog";

    #[test]
    fn originals_of_the_kernel_pass() {
        for (name, path, original) in [
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog", &b"-1\n"[..]),
            ("fs.file-max", "/proc/sys/fs/file-max", b"9223372036854775807\n"),
            ("net.ipv4.tcp_mem", "/proc/sys/net/ipv4/tcp_mem", b"10\t20\t30\n"),
            ("net.rps_cpus", "/sys/class/net/eth0.1/queues/rx-10/rps_cpus", b"00000000,00000003\n"),
            ("net.rps_flow_cnt", "/sys/class/net/eth0/queues/rx-0/rps_flow_cnt", b"0\n"),
            ("net.xps_cpus", "/sys/class/net/eth0/queues/tx-0/xps_cpus", b"f\n"),
            ("irq.affinity", "/proc/irq/40/smp_affinity_list", b"0-3,8\n"),
            ("irqbalance.banned_cpus", "/etc/default/irqbalance", b""),
            (
                "cpu.governor",
                "/sys/devices/system/cpu/cpufreq/policy12/scaling_governor",
                b"schedutil\n",
            ),
            ("cpu.dma_latency_us", "/dev/cpu_dma_latency", &2_000_000_000i32.to_ne_bytes()),
            (
                "vm.transparent_hugepage",
                "/sys/kernel/mm/transparent_hugepage/enabled",
                b"always [madvise] never\n",
            ),
        ] {
            assert_eq!(checked(name, path, original), Ok(()), "{name}");
        }
    }

    #[test]
    fn other_paths_are_refused() {
        for (name, path) in [
            (BACKLOG, "/proc/sys/kernel/core_pattern"),
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog/"),
            (BACKLOG, "proc/sys/net/core/netdev_max_backlog"),
            (BACKLOG, "/proc/sys/net/core/../core/netdev_max_backlog"),
            ("net.rps_cpus", "/sys/class/net/../queues/rx-0/rps_cpus"),
            ("net.rps_cpus", "/sys/class/net//queues/rx-0/rps_cpus"),
            ("net.rps_cpus", "/sys/class/net/eth0/queues/rx-/rps_cpus"),
            ("net.rps_cpus", "/sys/class/net/a/b/queues/rx-0/rps_cpus"),
            ("irq.affinity", "/proc/irq/../smp_affinity_list"),
            ("irqbalance.banned_cpus", "/etc/default/cron"),
            ("kubelet.reservedSystemCPUs", "/etc/passwd"),
            ("unknown", "/etc/passwd"),
        ] {
            let error = checked(name, path, b"1\n").expect_err(path);
            assert!(error.contains(name) && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (name, path, original) in [
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog", &b"|/bin/sh\n"[..]),
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog", b"1 2\n"),
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog", b""),
            (BACKLOG, "/proc/sys/net/core/netdev_max_backlog", b"\xff"),
            ("net.ipv4.tcp_mem", "/proc/sys/net/ipv4/tcp_mem", b"10\n"),
            ("net.rps_cpus", "/sys/class/net/eth0/queues/rx-0/rps_cpus", b"all\n"),
            ("irq.affinity", "/proc/irq/40/smp_affinity_list", b"all\n"),
            (
                "irqbalance.banned_cpus",
                "/etc/default/irqbalance",
                b"IRQBALANCE_BANNED_CPUS=$(reboot)\n",
            ),
            ("cpu.dma_latency_us", "/dev/cpu_dma_latency", b"1"),
            ("vm.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled", b"\n"),
            ("vm.transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled", b"a;b\n"),
        ] {
            let error = checked(name, path, original).expect_err(name);
            assert!(error.contains("the original") && error.contains("expected"), "{error}");
        }
    }
}
