//! The interrupts of a network device.

use crate::tree::Tree;

/// Their numbers.
pub(crate) fn of_device(tree: &Tree, interface: &str) -> Vec<u32> {
    let device = format!("/sys/class/net/{interface}/device");
    // The interrupts of a virtio device belong to the PCI device above it. Above other devices
    // there may be a port with its own interrupts.
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

/// The interrupts that /proc/interrupts lists with the name of the interface or its device:
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
