//! Requests for files: the path, and the requested parts.

use corelane_files::fuzzing::{normal, parts};

use super::{Target, text};

/// A file request's path. The result names a visible file below the root.
pub(super) const FILE_PATH: Target = Target {
    name: "file_path",
    run: |input| text(input, file_path),
    seeds: &[
        ("encoded", b"a%20b/%C3%A9.txt"),
        ("hidden", b".well-known/.git"),
        ("plain", b"assets/app.js"),
        ("up", b"a/%2e%2e/..%2fsecret"),
    ],
};

fn file_path(raw: &str) {
    let Some(path) = normal(raw) else { return };
    assert!(!path.starts_with('/') && !path.contains("//"), "{path}");
    assert!(!path.contains(['\\', '\0', '\n', '\r']), "{path}");
    let names = path.strip_suffix('/').unwrap_or(&path).split('/').enumerate();
    for (index, name) in names.filter(|_| !path.is_empty()) {
        assert!(!name.is_empty());
        assert!(!name.starts_with('.') || (index == 0 && name == ".well-known"), "{path}");
    }
    // If a character other than a slash is encoded again, the path stays the same.
    let encode = |byte: u8| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02x}"),
    };
    let encoded: String = path.bytes().map(encode).collect();
    assert_eq!(normal(&encoded).as_ref(), Some(&path));
    assert_eq!(normal(&encoded.replace('/', "%2f")).is_some(), !path.contains('/'));
}

/// The Range field. The selected parts are limited in number, lie within the file, and do not
/// overlap.
///
/// The first 8 bytes of the input are the file's length.
pub(super) const FILE_RANGE: Target = Target {
    name: "file_range",
    run: file_range,
    seeds: &[
        ("one", b"O*\0\0\0\0\0\0bytes=0-499"),
        ("overlapping", b"O*\0\0\0\0\0\0bytes=0-9,5-14,10-"),
        ("several", b"O*\0\0\0\0\0\0bytes=0-0, 500-600 ,,-1"),
        ("suffix", b"O*\0\0\0\0\0\0bytes=-500"),
    ],
};

fn file_range(input: &[u8]) {
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
    // A request for the found parts selects the same parts.
    if !found.is_empty() {
        let specs: Vec<_> = found.iter().map(|p| format!("{}-{}", p.start, p.end - 1)).collect();
        let value = format!("bytes={}", specs.join(","));
        assert_eq!(parts(value.as_bytes(), length), Some(found));
    }
}
