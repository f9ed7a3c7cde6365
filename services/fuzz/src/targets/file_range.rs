//! The Range header: parts are within the file, do not overlap, and are limited in number.
//!
//! The first 8 bytes of the input are the file's length.

use corelane_files::fuzzing::parts;

pub(super) fn run(input: &[u8]) {
    let Some((length, value)) = input.split_first_chunk::<8>() else { return };
    let length = u64::from_le_bytes(*length);
    let Some(found) = parts(value, length) else { return };
    assert!(value.len() >= 6 && value[..6].eq_ignore_ascii_case(b"bytes="), "another unit");
    assert!(found.len() <= 16, "{found:?}");
    let mut ordered = found.clone();
    ordered.sort_by_key(|part| part.start);
    for part in &ordered {
        assert!(part.start < part.end && part.end <= length, "{found:?} of {length}");
    }
    for pair in ordered.windows(2) {
        assert!(pair[0].end < pair[1].start, "{found:?}: joined, they are shorter");
    }
    // Requesting the selected parts selects the same parts.
    if !found.is_empty() {
        let specs: Vec<_> = found.iter().map(|p| format!("{}-{}", p.start, p.end - 1)).collect();
        let value = format!("bytes={}", specs.join(","));
        assert_eq!(parts(value.as_bytes(), length), Some(found));
    }
}
