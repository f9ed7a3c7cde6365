//! The hardware and programs of the node.

mod interrupts;
mod irqbalance;
mod processes;

use std::io;

pub(crate) use interrupts::of_device as interrupts;
pub(crate) use irqbalance::{Irqbalance, banned, undone, with_banned};
pub(crate) use processes::{limit, named};

use crate::cpus::Cpus;
use crate::settings::Settings;
use crate::tree::Tree;

const NETWORK: &str = "/sys/class/net";

/// CPUs, memory, devices and other programs that change settings.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) cpus: Cpus,
    /// CPUs for interrupts, or why there are none.
    pub(crate) housekeeping: Result<Cpus, String>,
    /// Network devices to check, and whether each exists.
    pub(crate) interfaces: Vec<Interface>,
    /// Pages of memory.
    pub(crate) pages: u64,
    pub(crate) kube_proxy: bool,
    pub(crate) irqbalance: Irqbalance,
}

/// One network device.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) there: bool,
    pub(crate) receiving: Vec<String>,
    pub(crate) sending: Vec<String>,
}

impl Node {
    pub(crate) fn look(tree: &Tree, settings: &Settings) -> Node {
        let cpus = list(tree, "/sys/devices/system/cpu/online").unwrap_or_default();
        Node {
            housekeeping: housekeeping(&settings.housekeeping, &cpus),
            interfaces: interfaces(tree, &settings.interfaces),
            pages: pages(tree),
            kube_proxy: !named(tree, "kube-proxy").is_empty(),
            irqbalance: Irqbalance::look(tree),
            cpus,
        }
    }
}

/// The kernel's boot ID; empty if it is unknown.
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

fn interfaces(tree: &Tree, said: &[String]) -> Vec<Interface> {
    let names = devices(tree, said).unwrap_or_default();
    let look = |name: String| {
        let folder = format!("{NETWORK}/{name}");
        let queues = tree.list(&format!("{folder}/queues")).unwrap_or_default();
        let of = |kind: &str| queues.iter().filter(|it| it.starts_with(kind)).cloned().collect();
        Interface { there: tree.exists(&folder), receiving: of("rx-"), sending: of("tx-"), name }
    };
    names.into_iter().map(look).collect()
}

/// The named network devices, or all with hardware.
pub(crate) fn devices(tree: &Tree, said: &[String]) -> io::Result<Vec<String>> {
    if !said.is_empty() {
        return Ok(said.to_vec());
    }
    let mut names = tree.list(NETWORK)?;
    names.retain(|name| tree.exists(&format!("{NETWORK}/{name}/device")));
    Ok(names)
}

/// Memory in pages; 0 if it cannot be read.
fn pages(tree: &Tree) -> u64 {
    let text = tree.text("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024 / rustix::param::page_size() as u64
}
