//! Quotas, weights and partitions of a cgroup, and counters of quotas.
//!
//! A quota is a finite number of CPUs above 0, and equal in both versions of cgroups. A weight
//! matches few numbers of CPUs, shares match one at most.

use corelane::fuzzing::{cfs_quota, cpu_max, is_partition, requests, throttling};

/// Maximum number of CPUs to compare with the weight of a container.
const MOST: usize = 1024;

pub(super) fn run(text: &str) {
    let quota = cpu_max(text);
    assert!(quota.is_none_or(|cpus| cpus.is_finite() && cpus > 0.0), "{quota:?}");
    let mut words = text.split_ascii_whitespace();
    if let (Some(first), Some(second)) = (words.next(), words.next()) {
        assert_eq!(cfs_quota(first, second), quota);
        assert_eq!(cfs_quota(&format!(" {first}\n"), &format!("{second}\n")), quota);
    }
    let [weight, shares] = requests(text, MOST);
    assert!(shares.len() <= 1, "{shares:?}");
    // The conversions agree for neighbours at most.
    assert!(weight.len() <= 4, "{weight:?}");
    // Times in the kernel's file are kept exactly: v1 has nanoseconds, v2 microseconds.
    if let Some((periods, throttled, nanos)) = throttling(text) {
        let time = |name, value: u128| text.contains(name) && text.contains(&value.to_string());
        assert!(text.contains(&periods.to_string()) && text.contains(&throttled.to_string()));
        assert!(time("throttled_usec ", nanos / 1000) || time("throttled_time ", nanos));
    }
    assert!(!is_partition(text) || quota.is_none() && weight.is_empty() && shares.is_empty());
}
