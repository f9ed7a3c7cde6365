//! The node's hardware and programs.

mod irqbalance;

use std::io;

pub(crate) use irqbalance::{
    FILES as IRQBALANCE_FILES, Irqbalance, banned, differ_only_in_bans, undone, with_banned,
};

use crate::cpus::Cpus;
use crate::settings::Settings;
use crate::tree::Tree;

const NETWORK: &str = "/sys/class/net";

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) cpus: Cpus,
    /// CPUs for interrupts, or the reason why there are no such CPUs.
    pub(crate) housekeeping: Result<Cpus, String>,
    /// The problem with these CPUs, if any.
    pub(crate) split: Option<String>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) pages: u64,
    pub(crate) kube_proxy: bool,
    pub(crate) irqbalance: Irqbalance,
}

#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) there: bool,
    pub(crate) receiving: Vec<String>,
    pub(crate) sending: Vec<String>,
    /// CPUs of the device's NUMA node, if the kernel shows it.
    pub(crate) local: Option<Cpus>,
}

impl Node {
    pub(crate) fn look(tree: &Tree, settings: &Settings) -> Node {
        let cpus = list(tree, "/sys/devices/system/cpu/online").unwrap_or_default();
        let housekeeping = housekeeping(&settings.housekeeping, &cpus);
        Node {
            split: housekeeping.as_ref().ok().and_then(|it| split_cores(tree, it, &cpus)),
            housekeeping,
            interfaces: interfaces(tree, &settings.interfaces),
            pages: pages(tree),
            kube_proxy: !named(tree, "kube-proxy").is_empty(),
            irqbalance: Irqbalance::look(tree),
            cpus,
        }
    }
}

/// The kernel's boot ID; empty if unknown.
pub(crate) fn boot(tree: &Tree) -> String {
    tree.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn list(tree: &Tree, path: &str) -> Option<Cpus> {
    Cpus::from_list(&tree.text(path).ok()?)
}

fn housekeeping(said: &str, online: &Cpus) -> Result<Cpus, String> {
    if said.is_empty() {
        return Err("no CPUs are reserved for interrupts: set housekeeping".to_owned());
    }
    let cpus = Cpus::from_list(said).unwrap_or_default().and(online);
    if cpus.is_empty() {
        return Err(format!("none of the CPUs for interrupts, {said}, is online"));
    }
    Ok(cpus)
}

/// If the configured interrupt CPUs are on this machine but split a core, returns a message with
/// the CPUs to set instead.
pub(crate) fn split_of(tree: &Tree, settings: &Settings) -> Option<String> {
    let online = list(tree, "/sys/devices/system/cpu/online")?;
    split_cores(tree, &housekeeping(&settings.housekeeping, &online).ok()?, &online)
}

/// Detects split cores: the other half of a reserved core goes to pods or, with `full-pcpus-only`,
/// stays unused.
fn split_cores(tree: &Tree, reserved: &Cpus, online: &Cpus) -> Option<String> {
    let mut whole = reserved.clone();
    for cpu in reserved.iter() {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        // Linux before 5.3 uses only the second name.
        let names = ["core_cpus_list", "thread_siblings_list"];
        let core = names.iter().find_map(|name| list(tree, &format!("{folder}/{name}")));
        whole.add(&core.unwrap_or_default().and(online));
    }
    let others = whole.without(reserved);
    (!others.is_empty()).then(|| {
        format!(
            "housekeeping = {reserved}: CPU {others} shares a core with it and is left to pods: whole cores are {whole}"
        )
    })
}

fn interfaces(tree: &Tree, said: &[String]) -> Vec<Interface> {
    let names = devices(tree, said).unwrap_or_default();
    let look = |name: String| {
        let folder = format!("{NETWORK}/{name}");
        let queues = tree.list(&format!("{folder}/queues")).unwrap_or_default();
        let of = |kind: &str| queues.iter().filter(|it| it.starts_with(kind)).cloned().collect();
        Interface {
            there: tree.exists(&folder),
            receiving: of("rx-"),
            sending: of("tx-"),
            local: local(tree, &folder),
            name,
        }
    };
    names.into_iter().map(look).collect()
}

/// CPUs of the NUMA node of a PCI device, or of the PCI device behind a virtio device.
fn local(tree: &Tree, interface: &str) -> Option<Cpus> {
    let files = ["device/local_cpulist", "device/../local_cpulist"];
    let found = files.iter().find_map(|file| list(tree, &format!("{interface}/{file}")));
    found.filter(|cpus| !cpus.is_empty())
}

pub(crate) fn devices(tree: &Tree, said: &[String]) -> io::Result<Vec<String>> {
    if !said.is_empty() {
        return Ok(said.to_vec());
    }
    let mut names = tree.list(NETWORK)?;
    names.retain(|name| tree.exists(&format!("{NETWORK}/{name}/device")));
    Ok(names)
}

/// Memory in pages; 0 if unreadable.
fn pages(tree: &Tree) -> u64 {
    let text = tree.text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024 / rustix::param::page_size() as u64
}

pub(crate) fn interrupts(tree: &Tree, interface: &str) -> Vec<u32> {
    let device = format!("/sys/class/net/{interface}/device");
    // A virtio device's interrupts belong to the PCI device above it. Other devices may have a port
    // above them with its own interrupts.
    let virtio = tree.link(&format!("{device}/subsystem")).is_some_and(|it| it == "virtio");
    let above = virtio.then(|| format!("{device}/../msi_irqs"));
    let folders = [Some(format!("{device}/msi_irqs")), above];
    let listed = folders.iter().flatten().find_map(|it| tree.list(it).ok()).unwrap_or_default();
    let mut found: Vec<u32> = listed.iter().filter_map(|name| name.parse().ok()).collect();
    if found.is_empty() {
        found = by_name(tree, interface, &device);
    }
    found.sort_unstable();
    found.retain(|irq| tree.exists(&format!("/proc/irq/{irq}")));
    found
}

/// Interrupts listed in /proc/interrupts under the name of the interface or its device:
/// `eth0-rx-1`, `virtio2-input.0`.
fn by_name(tree: &Tree, interface: &str, device: &str) -> Vec<u32> {
    let names = [Some(interface.to_owned()), tree.link(device)];
    let text = tree.text("/proc/interrupts").unwrap_or_default();
    let is = |word: &str| {
        names.iter().flatten().any(|name| match word.strip_prefix(name.as_str()) {
            Some(rest) => !rest.starts_with(|it: char| it.is_ascii_alphanumeric()),
            None => false,
        })
    };
    let irq = |line: &str| {
        let (irq, rest) = line.split_once(':')?;
        let irq = irq.trim().parse().ok()?;
        rest.split([' ', ',']).any(is).then_some(irq)
    };
    text.lines().filter_map(irq).collect()
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    folder: String,
}

pub(crate) fn named(tree: &Tree, name: &str) -> Vec<Process> {
    let folders = tree.list("/proc").unwrap_or_default().into_iter();
    let numbered = folders.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    let is = |folder: &String| tree.text(&format!("{folder}/comm")).is_ok_and(|it| it == name);
    numbered.map(|it| format!("/proc/{it}")).filter(is).map(|folder| Process { folder }).collect()
}

impl Process {
    /// An environment variable of the process. The outer `None` means unreadable.
    pub(crate) fn variable(&self, tree: &Tree, name: &str) -> Option<Option<String>> {
        let all = tree.read(&format!("{}/environ", self.folder)).ok()?;
        let all = String::from_utf8_lossy(&all).into_owned();
        let mut pairs = all.split('\0').filter_map(|it| it.split_once('='));
        Some(pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()))
    }
}

/// The process's hard limit on open files; `None` if the line is missing.
pub(crate) fn limit(tree: &Tree, process: &Process) -> Option<u64> {
    let text = tree.text(&format!("{}/limits", process.folder)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
