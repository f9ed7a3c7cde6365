//! Network device interrupts, and the CPUs that serve them.

use crate::cpus::Cpus;
use crate::node;
use crate::tree::Tree;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt {
    pub(crate) number: u32,
    pub(crate) device: String,
    pub(crate) cpus: Cpus,
}

/// All interrupts of these network devices, or of all devices with hardware if no devices are
/// named.
pub(crate) fn find(tree: &Tree, interfaces: &[String]) -> Result<Vec<Interrupt>, String> {
    let devices = node::devices(tree, interfaces);
    let devices = devices.map_err(|error| format!("network devices cannot be listed: {error}"))?;
    let mut found = Vec::new();
    for device in devices {
        for number in node::interrupts(tree, &device) {
            let folder = format!("/proc/irq/{number}");
            // The first file shows the current CPU. Some interrupt controllers support only the
            // second file.
            let files = ["effective_affinity_list", "smp_affinity_list"];
            let cpus = files.iter().find_map(|file| {
                let cpus = Cpus::from_list(&tree.text(&format!("{folder}/{file}")).ok()?);
                cpus.filter(|cpus| !cpus.is_empty())
            });
            match cpus {
                Some(cpus) => found.push(Interrupt { number, device: device.clone(), cpus }),
                None if !tree.exists(&folder) => {}
                None => return Err(format!("{folder}: the CPUs cannot be read")),
            }
        }
    }
    Ok(found)
}
