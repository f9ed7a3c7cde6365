//! Lists of CPUs (cpuset(7)): ascending, bounded, and the same when written out and read again.

use corelane::fuzzing::cpu_list;

pub(super) fn run(text: &str) {
    let Some(cpus) = cpu_list(text) else { return };
    assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]), "{cpus:?}");
    assert!(cpus.last().is_none_or(|&last| last < 1 << 16), "{cpus:?}");
    let written: Vec<_> = cpus.iter().map(usize::to_string).collect();
    assert_eq!(cpu_list(&written.join(",")), Some(cpus.clone()));
    // Each run of consecutive CPUs as one range, as the kernel writes it.
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b);
    let ranges: Vec<_> = ranges.map(|run| format!("{}-{}", run[0], run[run.len() - 1])).collect();
    assert_eq!(cpu_list(&ranges.join(",")), Some(cpus));
}
