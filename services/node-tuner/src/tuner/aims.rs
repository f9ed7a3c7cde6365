//! Determines a setting's files and the wanted value of each file.

use crate::catalogue::{self, Knob, Place, Rule, Value};
use crate::cpus::Cpus;
use crate::node::{Interface, Node, interrupts};
use crate::profile::Profile;
use crate::tree::Tree;

#[derive(Clone, Debug)]
pub(super) struct Aim {
    pub(super) knob: &'static Knob,
    pub(super) target: String,
    /// Empty if there is no file.
    pub(super) path: String,
    /// The wanted value, or the reason why there is no wanted value.
    pub(super) wanted: Result<Value, String>,
}

pub(super) struct Sight<'a> {
    pub(super) tree: &'a Tree,
    pub(super) node: &'a Node,
    pub(super) profile: &'a Profile,
}

impl Sight<'_> {
    pub(super) fn aims(&self, knob: &'static Knob, wanted: &Value) -> Vec<Aim> {
        let aim = |target: &str, path: String, wanted| Aim {
            knob,
            target: target.to_owned(),
            path,
            wanted,
        };
        match knob.place {
            Place::Sysctl => {
                let path = format!("/proc/sys/{}", knob.name.replace('.', "/"));
                vec![aim("", path, self.of_sysctl(knob, wanted))]
            }
            Place::File(path) => vec![aim("", path.to_owned(), Ok(wanted.clone()))],
            Place::Receiving(file) => self.queues(
                knob,
                file,
                |it| &it.receiving,
                |device, _| self.of_receiving(knob, device, wanted),
            ),
            Place::Sending(file) => {
                self.queues(knob, file, |it| &it.sending, |device, at| self.of_sending(device, at))
            }
            Place::Interrupts => self.interrupts(knob, wanted),
            Place::Irqbalance => {
                let (path, wanted) = self.irqbalance(wanted);
                vec![aim("", path, wanted)]
            }
            Place::Governors => self.governors(knob, wanted),
            Place::Pod(_) | Place::Kubelet(_) | Place::Containerd | Place::Boot(_) => Vec::new(),
        }
    }

    fn of_sysctl(&self, knob: &Knob, wanted: &Value) -> Result<Value, String> {
        match wanted {
            Value::Auto => self.node.housekeeping.clone().map(Value::Cpus),
            Value::Cpus(cpus) => self.online(cpus),
            Value::Three(pages) if knob.name == "net.ipv4.tcp_mem" => {
                Ok(Value::Three(bounded(*pages, self.node.pages / 4)))
            }
            wanted => Ok(flows(knob, wanted)),
        }
    }

    fn online(&self, cpus: &Cpus) -> Result<Value, String> {
        let online = cpus.and(&self.node.cpus);
        if online.is_empty() {
            return Err(format!("none of the CPUs {} is online", cpus.list()));
        }
        Ok(Value::Cpus(online))
    }

    fn queues<'a>(
        &'a self,
        knob: &'static Knob,
        file: &str,
        queues: impl Fn(&'a Interface) -> &'a Vec<String>,
        wanted: impl Fn(&'a Interface, usize) -> Result<Value, String>,
    ) -> Vec<Aim> {
        let mut aims = Vec::new();
        for device in &self.node.interfaces {
            let name = &device.name;
            for (at, queue) in queues(device).iter().enumerate() {
                aims.push(Aim {
                    knob,
                    target: format!("{name}/{queue}"),
                    path: format!("/sys/class/net/{name}/queues/{queue}/{file}"),
                    wanted: wanted(device, at),
                });
            }
            if queues(device).is_empty() {
                let why = if device.there { "the device has no queues" } else { "no such device" };
                aims.push(nowhere(knob, name, why));
            }
        }
        self.or_no_device(knob, aims)
    }

    fn or_no_device(&self, knob: &'static Knob, aims: Vec<Aim>) -> Vec<Aim> {
        match aims.is_empty() {
            true => vec![nowhere(knob, "", "no network device with hardware")],
            false => aims,
        }
    }

    fn of_receiving(
        &self,
        knob: &Knob,
        device: &Interface,
        wanted: &Value,
    ) -> Result<Value, String> {
        let (queues, cpus) = (device.receiving.len(), self.node.cpus.len());
        if queues >= cpus {
            return Err(format!("redundant: {queues} receive queue(s) for {cpus} CPU(s)"));
        }
        match wanted {
            Value::Cpus(cpus) => self.online(cpus),
            // Pods may be pinned to any other CPU.
            Value::Auto if knob.rule == Rule::Mask => self.near(device).map(Value::Cpus),
            Value::Auto => self.share_of_flows(queues),
            wanted => Ok(flows(knob, wanted)),
        }
    }

    /// Flows per queue: the total divided by the number of queues, as recommended in scaling.rst.
    fn share_of_flows(&self, queues: usize) -> Result<Value, String> {
        let all = catalogue::find("net.core.rps_sock_flow_entries");
        match all.and_then(|knob| self.profile.wanted(knob)) {
            Some(Value::Number(all)) => {
                Ok(Value::Number((all / queues as u64).max(1).next_power_of_two()))
            }
            _ => Err("net.core.rps_sock_flow_entries is not in the profile".to_owned()),
        }
    }

    fn of_sending(&self, device: &Interface, at: usize) -> Result<Value, String> {
        let queues = device.sending.len();
        if queues == 1 {
            return Err("a single queue has no XPS".to_owned());
        }
        let cpus: Cpus = self.node.cpus.iter().skip(at).step_by(queues).collect();
        if cpus.is_empty() {
            return Err("more queues than CPUs".to_owned());
        }
        Ok(Value::Cpus(cpus))
    }

    fn interrupts(&self, knob: &'static Knob, wanted: &Value) -> Vec<Aim> {
        let mut aims = Vec::new();
        for device in &self.node.interfaces {
            let cpus = self.for_interrupts(wanted, device).and_then(|cpus| self.stays(cpus));
            let irqs = interrupts(self.tree, &device.name);
            if irqs.is_empty() {
                let why =
                    if device.there { "the device has no interrupt" } else { "no such device" };
                aims.push(nowhere(knob, &device.name, why));
            }
            for irq in irqs {
                let path = format!("/proc/irq/{irq}/smp_affinity_list");
                let managed = !self.tree.writable(&path);
                aims.push(Aim {
                    knob,
                    target: format!("{}/{irq}", device.name),
                    path,
                    wanted: if managed { Err(MANAGED.to_owned()) } else { cpus.clone() },
                });
            }
        }
        self.or_no_device(knob, aims)
    }

    fn for_interrupts(&self, wanted: &Value, device: &Interface) -> Result<Value, String> {
        match wanted {
            Value::Cpus(cpus) => self.online(cpus),
            _ => self.near(device).map(Value::Cpus),
        }
    }

    /// Interrupt CPUs on the device's NUMA node, whose memory is near the device, or all interrupt
    /// CPUs if that node has none of them. irqbalance knows the nodes itself and uses any CPU that
    /// is not banned.
    fn near(&self, device: &Interface) -> Result<Cpus, String> {
        let all = self.node.housekeeping.clone()?;
        let local = device.local.as_ref().filter(|_| !self.node.irqbalance.runs);
        let near = local.map(|local| all.and(local)).filter(|near| !near.is_empty());
        Ok(near.unwrap_or(all))
    }

    /// Fails unless irqbalance bans the other CPUs, because it would otherwise move the interrupt
    /// back.
    fn stays(&self, wanted: Value) -> Result<Value, String> {
        let Value::Cpus(cpus) = &wanted else { return Ok(wanted) };
        let irqbalance = &self.node.irqbalance;
        if !irqbalance.runs {
            return Ok(wanted);
        }
        let in_file = || {
            let text = irqbalance.file.and_then(|path| self.tree.text(path).ok());
            text.map(|it| crate::node::banned(&it)).unwrap_or_default()
        };
        if irqbalance.hidden && irqbalance.bans.is_none() {
            return Err(
                "irqbalance runs, and the CPUs that it does not use cannot be read".to_owned()
            );
        }
        let banned = irqbalance.bans.clone().unwrap_or_else(in_file);
        if !self.node.cpus.without(cpus).within(&banned) {
            return Err("irqbalance runs without a ban list for the other CPUs".to_owned());
        }
        Ok(wanted)
    }

    fn irqbalance(&self, wanted: &Value) -> (String, Result<Value, String>) {
        let irqbalance = &self.node.irqbalance;
        let Some(path) = irqbalance.file else {
            let why = match (irqbalance.hidden, irqbalance.runs) {
                (true, true) => "irqbalance runs, but its file may not be read",
                (_, true) => "irqbalance runs, but has no file in /etc/default or /etc/sysconfig",
                (_, false) => "there is no irqbalance",
            };
            return (String::new(), Err(why.to_owned()));
        };
        let banned = match wanted {
            Value::Cpus(cpus) => Ok(cpus.clone()),
            _ => self.node.housekeeping.clone().map(|cpus| self.node.cpus.without(&cpus)),
        };
        let banned = banned.and_then(|cpus| match cpus.is_empty() {
            true => Err("all CPUs are for interrupts".to_owned()),
            false => Ok(Value::Cpus(cpus)),
        });
        (path.to_owned(), banned)
    }

    fn governors(&self, knob: &'static Knob, wanted: &Value) -> Vec<Aim> {
        let folder = "/sys/devices/system/cpu/cpufreq";
        let policies = self.tree.list(folder).unwrap_or_default().into_iter();
        let policies: Vec<String> = policies.filter(|it| it.starts_with("policy")).collect();
        if policies.is_empty() {
            let why = "no cpufreq: a virtual machine, or reserved by the firmware";
            return vec![nowhere(knob, "", why)];
        }
        let aim = |policy: String| {
            let available = format!("{folder}/{policy}/scaling_available_governors");
            let word = wanted.text();
            let has = |text: String| text.split_whitespace().any(|it| it == word);
            let wanted = match self.tree.text(&available).map_or(true, has) {
                true => Ok(wanted.clone()),
                false => Err(format!("the driver has no governor {word}")),
            };
            let path = format!("{folder}/{policy}/scaling_governor");
            Aim { knob, target: policy, path, wanted }
        };
        policies.into_iter().map(aim).collect()
    }
}

/// Reason why an interrupt cannot be moved.
pub(super) const MANAGED: &str = "the kernel manages this interrupt itself";

fn nowhere(knob: &'static Knob, target: &str, why: &str) -> Aim {
    Aim { knob, target: target.to_owned(), path: String::new(), wanted: Err(why.to_owned()) }
}

/// Number of flows that the kernel will show, because it rounds the flow table up to a power of
/// two.
fn flows(knob: &Knob, wanted: &Value) -> Value {
    match wanted {
        Value::Number(number) if knob.name.contains("_flow_") => {
            Value::Number(number.next_power_of_two())
        }
        wanted => wanted.clone(),
    }
}

fn bounded(pages: [u64; 3], most: u64) -> [u64; 3] {
    if most == 0 || pages[2] <= most {
        return pages;
    }
    pages.map(|it| (u128::from(it) * u128::from(most) / u128::from(pages[2])) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bounds_what_tcp_may_use() {
        assert_eq!(bounded([10, 15, 20], 0), [10, 15, 20]);
        assert_eq!(bounded([10, 15, 20], 20), [10, 15, 20]);
        assert_eq!(bounded([10, 15, 20], 4), [2, 3, 4]);
    }
}
