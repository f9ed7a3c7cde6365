//! The query of `/work?ops=N`: a number within its bound, at any position of the query.
//!
//! The first line of the input is the bound.

use corelane_server::fuzzing::ops;

pub(super) fn run(text: &str) {
    let (most, query) = text.split_once('\n').unwrap_or(("", text));
    let most = most.parse().unwrap_or(u64::MAX);
    let found = ops(query, most);
    assert!(found.is_none_or(|n| n <= most), "{found:?} of {most}");
    let Some(n) = found else { return };
    assert_eq!(ops(&format!("ops={n}"), most), found);
    assert_eq!(ops(&format!("{query}&ops={n}"), most), None, "given twice");
    assert_eq!(ops(query, n), found, "at its bound");
    if let Some(less) = n.checked_sub(1) {
        assert_eq!(ops(query, less), None, "above its bound");
    }
}
