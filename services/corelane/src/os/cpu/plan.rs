//! Decides the number of lanes and their CPUs with pure functions of a [`CpuView`].

use std::collections::{BTreeMap, BTreeSet};

use super::view::CpuView;
use super::{Lanes, MAX_LANES, Pin};

/// One entry per lane, with its CPU if the lane is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuPlan {
    pub(crate) lanes: Vec<Option<usize>>,
    /// The reason why lanes are not pinned, for the log. `None` if they are pinned or pinning is
    /// off.
    pub(crate) unpinned_because: Option<String>,
}

pub(crate) fn plan(view: &CpuView, lanes: Lanes, pin: Pin) -> Result<CpuPlan, String> {
    let cpus = view.cpus();
    if cpus.is_empty() {
        return Err("the affinity mask of this process is empty".to_owned());
    }
    let count = match lanes {
        Lanes::Auto => lanes_for(cpus.len(), view.quota),
        Lanes::Count(n) if (1..=MAX_LANES).contains(&n) => n,
        Lanes::Count(n) => return Err(format!("{n} lanes: expected 1 to {MAX_LANES}")),
    };
    if pin == Pin::On && count > cpus.len() {
        return Err(format!(
            "cannot pin {count} lanes: this process may use only {} CPUs ({cpus:?})",
            cpus.len()
        ));
    }
    Ok(assign(view, count, lanes, pin))
}

/// Reassigns CPUs to running lanes without changing their number. A lane whose CPU is chosen again
/// keeps its CPU and therefore its cache.
pub(crate) fn replan(view: &CpuView, lanes: Lanes, pin: Pin, present: &[Option<usize>]) -> CpuPlan {
    let mut plan = assign(view, present.len(), lanes, pin);
    let mut free: BTreeSet<usize> = plan.lanes.iter().copied().flatten().collect();
    let kept: Vec<_> = present.iter().map(|cpu| cpu.filter(|cpu| free.remove(cpu))).collect();
    plan.lanes = kept.into_iter().map(|cpu| cpu.or_else(|| free.pop_first())).collect();
    plan
}

/// One lane per CPU, up to the number of lanes that the quota can keep running. A fraction of a CPU
/// does not get a lane. Lanes that exceed the quota would all stop for the rest of each period
/// (sched-bwc.rst). The admin thread uses the remainder.
fn lanes_for(cpus: usize, quota: Option<f64>) -> usize {
    // The conversion from float saturates.
    quota.map_or(cpus, |quota| cpus.min(quota.floor() as usize)).max(1)
}

/// Pins `count` lanes, or returns the reason not to.
fn assign(view: &CpuView, count: usize, lanes: Lanes, pin: Pin) -> CpuPlan {
    let cpus = view.cpus();
    let because = match pin {
        Pin::Off => None,
        _ if count > cpus.len() => Some(share(count, cpus.len())),
        Pin::On => return pinned(choose(view, &cpus, count)),
        Pin::Auto => match shared_because(view, &cpus, count, lanes) {
            None => return pinned(cpus),
            because => because,
        },
    };
    CpuPlan { lanes: vec![None; count], unpinned_because: because }
}

fn pinned(cpus: Vec<usize>) -> CpuPlan {
    CpuPlan { lanes: cpus.into_iter().map(Some).collect(), unpinned_because: None }
}

fn share(lanes: usize, cpus: usize) -> String {
    format!("{lanes} lane(s) for {cpus} CPU(s)")
}

/// The reason why the CPUs may not be exclusive, or `None` if all evidence shows that they are.
///
/// A container cannot know for certain which CPUs the kubelet's static CPU manager assigned to it.
/// The evidence is a cpuset smaller than the machine, no quota below it (none at all since
/// Kubernetes 1.33), and a request for exactly its CPUs. Containers in the shared pool also have a
/// cpuset, but their requests add up to less than the pool, because it always contains CPUs that
/// are reserved for the system.
fn shared_because(view: &CpuView, cpus: &[usize], count: usize, lanes: Lanes) -> Option<String> {
    let n = cpus.len();
    if let Some(quota) = view.quota.filter(|&quota| quota < n as f64) {
        return Some(format!(
            "the CFS quota of {quota} CPUs is less than the {n} CPUs of the affinity mask"
        ));
    }
    if count != n {
        return Some(share(count, n));
    }
    if view.online.is_empty() {
        return Some("the number of CPUs of the machine is unknown".to_owned());
    }
    if n >= view.online.len() {
        return Some(format!(
            "the affinity mask contains all {} CPUs of the machine",
            view.online.len()
        ));
    }
    let requested = view.weight.is_some_and(|weight| weight.requests(n));
    if view.exclusive || requested {
        return None;
    }
    match view.weight {
        Some(weight) if !weight.is_default() => {
            Some(format!("the cgroup's {weight} does not match a request of {n} CPUs"))
        }
        // An operator who sets as many lanes as there are CPUs is assumed to know the CPUs.
        _ if lanes != Lanes::Auto => None,
        _ => Some("nothing shows that this process has its CPUs to itself, not even an explicit number of lanes".into()),
    }
}

/// Picks `count` of `cpus` in ascending order. Lanes share a core only if no other core is left.
/// Subject to that, they use as few NUMA nodes as possible. A busy SMT sibling costs a lane more
/// than lanes on another node, because lanes do not read each other's memory.
fn choose(view: &CpuView, cpus: &[usize], count: usize) -> Vec<usize> {
    // Sorted by node, then by core, then by CPU within the core.
    let mut nodes = BTreeMap::<usize, BTreeMap<usize, Vec<usize>>>::new();
    for &cpu in cpus {
        let at = view.position(cpu);
        nodes.entry(at.node).or_default().entry(at.core).or_default().push(cpu);
    }
    let mut nodes: Vec<_> = nodes.into_values().collect();
    // The smallest node that is large enough, or the largest nodes if no node is.
    nodes.sort_by_key(|cores| match cores.len() {
        enough if enough >= count => (false, enough),
        short => (true, usize::MAX - short),
    });
    let siblings = |cores: &BTreeMap<usize, Vec<usize>>| {
        let ranked = |cpus: &Vec<usize>| cpus.iter().copied().enumerate().collect::<Vec<_>>();
        cores.values().flat_map(ranked).collect::<Vec<_>>()
    };
    let mut ranked: Vec<_> = nodes.iter().flat_map(siblings).collect();
    // A stable sort keeps the node order among the first CPUs of all cores, and then among the
    // second CPUs.
    ranked.sort_by_key(|&(rank, _)| rank);
    let mut chosen: Vec<_> = ranked.into_iter().take(count).map(|(_, cpu)| cpu).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::cgroup::{Weight, cpu_list};
    use super::super::view::Position;
    use super::*;

    fn list(text: &str) -> Vec<usize> {
        cpu_list(text).expect("a list")
    }

    fn on(affinity: &str, online: &str) -> CpuView {
        CpuView { affinity: list(affinity), online: list(online), ..CpuView::default() }
    }

    impl CpuView {
        fn cpuset(self, cpus: &str) -> Self {
            CpuView { cpuset: Some(list(cpus)), ..self }
        }

        fn quota(self, cpus: f64) -> Self {
            CpuView { quota: Some(cpus), ..self }
        }

        fn shares(self, n: u64) -> Self {
            CpuView { weight: Some(Weight::Shares(n)), ..self }
        }

        fn weight(self, n: u64) -> Self {
            CpuView { weight: Some(Weight::Weight(n)), ..self }
        }

        fn exclusive(self) -> Self {
            CpuView { exclusive: true, ..self }
        }

        fn node(mut self, node: usize, cores: &[&str]) -> Self {
            for cpus in cores.iter().map(|core| list(core)) {
                let position = |&cpu: &usize| (cpu, Position { core: cpus[0], node });
                self.topology.extend(cpus.iter().map(position));
            }
            self
        }
    }

    /// `4 5` for two pinned lanes, `- -` for two unpinned lanes.
    fn text(lanes: &[Option<usize>]) -> String {
        let cpus = lanes.iter().map(|cpu| cpu.map_or("-".to_owned(), |cpu| cpu.to_string()));
        cpus.collect::<Vec<_>>().join(" ")
    }

    /// View, lanes, pin -> lanes, and part of the reason for not pinning.
    type Case = (CpuView, Lanes, Pin, &'static str, Option<&'static str>);

    fn check(cases: impl IntoIterator<Item = Case>) {
        for (view, lanes, pin, want, because) in cases {
            let case = format!("lanes {lanes}, pin {pin}, {view:?}");
            let plan = plan(&view, lanes, pin).expect(&case);
            assert_eq!(text(&plan.lanes), want, "{case}");
            match (because, plan.unpinned_because) {
                (None, None) => {}
                (Some(part), Some(reason)) if reason.contains(part) => {}
                (_, reason) => panic!("the reason is {reason:?}: {case}"),
            }
        }
    }

    const AUTO: Lanes = Lanes::Auto;

    fn n(lanes: usize) -> Lanes {
        Lanes::Count(lanes)
    }

    #[test]
    fn number_of_lanes() {
        use Pin::Off;
        check([
            (on("0-1", "0-1"), AUTO, Off, "- -", None),
            (on("4-5,9", "0-15"), AUTO, Off, "- - -", None),
            // The kernel limits the mask to the cpuset, but both are checked.
            (on("0-7", "0-7").cpuset("2-4"), AUTO, Off, "- - -", None),
            (on("0-1", "0-7").cpuset("1-4"), AUTO, Off, "-", None),
            // A cpuset that contains none of the mask's CPUs belongs to another cgroup.
            (on("0-1", "0-7").cpuset("4-7"), AUTO, Off, "- -", None),
            (on("0-1", "0-7").cpuset(""), AUTO, Off, "- -", None),
            // A quota is rounded down to whole lanes, but to at least one lane.
            (on("0-7", "0-7").quota(4.0), AUTO, Off, "- - - -", None),
            (on("0-7", "0-7").quota(2.99), AUTO, Off, "- -", None),
            (on("0-7", "0-7").quota(0.25), AUTO, Off, "-", None),
            (on("0-1", "0-7").quota(64.0), AUTO, Off, "- -", None),
            (on("0-1", "0-7").quota(f64::INFINITY), AUTO, Off, "- -", None),
            (on("0-1", "0-7").quota(f64::NAN), AUTO, Off, "-", None),
            // An explicit number is used unchanged.
            (on("0-1", "0-1").quota(1.0), n(3), Off, "- - -", None),
            (on("0-7", "0-7"), n(1), Off, "-", None),
        ]);
    }

    #[test]
    fn pinned_when_the_cpus_are_evidently_ours() {
        use Pin::Auto;
        let pod = || on("3,7", "0-7").cpuset("3,7");
        check([
            // As of Kubernetes 1.33, the static CPU manager does not set a quota. Earlier versions
            // set a quota equal to the CPUs.
            (pod().shares(2048), AUTO, Auto, "3 7", None),
            (pod().shares(2048).quota(2.0), AUTO, Auto, "3 7", None),
            (pod().shares(2048), n(2), Auto, "3 7", None),
            // cgroup v2, with both conversions of the request.
            (pod().weight(79), AUTO, Auto, "3 7", None),
            (pod().weight(174), AUTO, Auto, "3 7", None),
            (on("5", "0-7").weight(39), AUTO, Auto, "5", None),
            (on("5", "0-7").weight(100), AUTO, Auto, "5", None),
            // The kernel guarantees the CPUs, regardless of the request.
            (pod().exclusive(), AUTO, Auto, "3 7", None),
            (pod().exclusive().weight(20), AUTO, Auto, "3 7", None),
            // The number of lanes is explicit, and the request is unknown or unset.
            (pod(), n(2), Auto, "3 7", None),
            (on("3,7", "0-7"), n(2), Auto, "3 7", None),
            (pod().shares(1024), n(2), Auto, "3 7", None),
            (pod().weight(100), n(2), Auto, "3 7", None),
        ]);
    }

    #[test]
    fn not_pinned_when_others_may_use_the_cpus() {
        use Pin::Auto;
        let all = || on("0-1", "0-1");
        let part = || on("0-1", "0-7").cpuset("0-1");
        let whole = Some("all 2 CPUs of the machine");
        check([
            // The whole machine, regardless of other evidence.
            (all(), AUTO, Auto, "- -", whole),
            (all(), n(2), Auto, "- -", whole),
            (all().cpuset("0-1").shares(2048).exclusive(), n(2), Auto, "- -", whole),
            // A quota without a cpuset: every container would pick the same CPUs.
            (on("0-7", "0-7").quota(2.0).shares(2048), AUTO, Auto, "- -", Some("quota of 2")),
            (on("0-7", "0-7").quota(8.0), n(8), Auto, "- - - - - - - -", Some("all 8")),
            // The quota is below the cpuset.
            (part().quota(1.5).shares(2048), n(2), Auto, "- -", Some("quota of 1.5")),
            (on("3", "0-7").quota(0.5).shares(1024), AUTO, Auto, "-", Some("quota of 0.5")),
            // There are fewer lanes than CPUs.
            (on("0-2", "0-7"), n(1), Auto, "-", Some("1 lane(s) for 3")),
            (on("1", "0-1"), n(3), Auto, "- - -", Some("3 lane(s) for 1")),
            (part().quota(1.0), AUTO, Auto, "-", Some("quota of 1")),
            // Shared pool of the static CPU manager: the request does not match these CPUs.
            (part().shares(2), AUTO, Auto, "- -", Some("cpu.shares of 2 ")),
            (part().shares(512), n(2), Auto, "- -", Some("cpu.shares of 512")),
            (part().shares(3072), n(2), Auto, "- -", Some("cpu.shares of 3072")),
            (part().weight(1), n(2), Auto, "- -", Some("cpu.weight of 1 ")),
            (part().weight(80), n(2), Auto, "- -", Some("cpu.weight of 80")),
            // The request is unknown and the number of lanes is automatic.
            (part(), AUTO, Auto, "- -", Some("nothing shows")),
            (part().weight(100), AUTO, Auto, "- -", Some("nothing shows")),
            (on("0-1", ""), n(2), Auto, "- -", Some("unknown")),
        ]);
    }

    #[test]
    fn pinned_when_told() {
        use Pin::On;
        let smt = || on("0-7", "0-7").node(0, &["0,4", "1,5", "2,6", "3,7"]);
        let two = || on("0-7", "0-7").node(0, &["0-1", "2-3"]).node(1, &["4-5", "6-7"]);
        let uneven = || on("0-5", "0-7").node(0, &["0", "1"]).node(1, &["2", "3", "4", "5"]);
        check([
            (on("0-1", "0-1"), AUTO, On, "0 1", None),
            (on("4-5,9", "0-15"), AUTO, On, "4 5 9", None),
            (on("4-5,9", "0-15"), n(2), On, "4 5", None),
            (on("0-3", "0-3").quota(2.5).shares(2), AUTO, On, "0 1", None),
            (on("0-3", ""), n(1), On, "0", None),
            // Each lane gets its own core until no core is left; only then do lanes use SMT
            // siblings.
            (smt(), n(2), On, "0 1", None),
            (smt(), n(4), On, "0 1 2 3", None),
            (smt(), n(5), On, "0 1 2 3 4", None),
            (smt(), AUTO, On, "0 1 2 3 4 5 6 7", None),
            (on("0,4-5", "0-7").node(0, &["0,4", "1,5"]), n(2), On, "0 5", None),
            (two(), n(1), On, "0", None),
            // Lanes use one node's cores first, then the other node's cores, and only then SMT
            // siblings.
            (two(), n(2), On, "0 2", None),
            (two(), n(3), On, "0 2 4", None),
            (two(), n(5), On, "0 1 2 4 6", None),
            // The smallest node that is large enough, or the largest nodes first if no node is.
            (uneven(), n(2), On, "0 1", None),
            (uneven(), n(3), On, "2 3 4", None),
            (uneven(), n(5), On, "0 2 3 4 5", None),
        ]);
    }

    #[test]
    fn impossible_plans_are_refused() {
        let refused = |view, lanes, pin| plan(&view, lanes, pin).expect_err("refused");
        assert!(refused(on("2", "0-3"), n(2), Pin::On).contains("[2]"));
        assert!(refused(on("0-3", "0-3").cpuset("1"), n(2), Pin::On).contains("[1]"));
        assert!(refused(on("", "0-3"), AUTO, Pin::Auto).contains("empty"));
        assert!(refused(on("0", "0-3"), n(0), Pin::Off).contains("1 to 1024"));
        assert!(refused(on("0", "0-3"), n(1025), Pin::Off).contains("1 to 1024"));
    }

    #[test]
    fn lanes_that_run_keep_their_number_and_what_they_can_of_their_cpus() {
        use Pin::{Auto, Off, On};
        let two = [Some(0), Some(1)];
        let cases = [
            (on("0-1", "0-3"), On, &two[..], "0 1"),
            (on("1-2", "0-3"), On, &two, "2 1"),
            (on("2-3", "0-3"), On, &two, "2 3"),
            (on("1-3", "0-3"), On, &two, "2 1"),
            (on("1", "0-3"), On, &two, "- -"),
            (on("0-1", "0-3"), On, &[None, None], "0 1"),
            (on("0-1", "0-3"), Off, &[None, None], "- -"),
            // `Auto` checks the evidence again, and an automatic number does not count as explicit.
            (on("1-2", "0-3").shares(2048), Auto, &two, "2 1"),
            (on("1-2", "0-3"), Auto, &two, "- -"),
            (on("1-2", "0-3").shares(2048).quota(1.0), Auto, &two, "- -"),
            (on("0-3", "0-3").shares(2048), Auto, &two, "- -"),
            (on("1-3", "0-3").shares(3072), Auto, &two, "- -"),
        ];
        for (view, pin, present, want) in cases {
            let plan = replan(&view, AUTO, pin, present);
            assert_eq!(text(&plan.lanes), want, "{pin}, {present:?}, {view:?}");
            let unpinned = want.contains('-') && pin != Off;
            assert_eq!(plan.unpinned_because.is_some(), unpinned, "{plan:?}");
        }
        let set = replan(&on("1-2", "0-3"), n(2), Auto, &two);
        assert_eq!(text(&set.lanes), "2 1");
    }
}
