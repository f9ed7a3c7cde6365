//! Trace contexts: what is passed on is valid, bounded, and parses to the same context.

use corelane::fuzzing::trace_context;

pub(super) fn run(text: &str) {
    let mut lines = text.split('\n');
    let Some((parent, state)) = trace_context(lines.next().unwrap_or(""), lines) else { return };
    assert_eq!(parent.len(), 55, "{parent}");
    assert!(parent.starts_with("00-") && !parent.contains(|c: char| c.is_uppercase()), "{parent}");
    assert!(parent[3..35] != "0".repeat(32) && parent[36..52] != "0".repeat(16), "{parent}");
    let members = |state: &String| state.split(',').filter(|one| !one.trim().is_empty()).count();
    assert!(state.as_ref().is_none_or(|state| state.len() <= 512), "{state:?}");
    assert!(state.as_ref().is_none_or(|state| (1..=32).contains(&members(state))), "{state:?}");
    assert_eq!(trace_context(&parent, state.as_deref().into_iter()), Some((parent, state)));
}
