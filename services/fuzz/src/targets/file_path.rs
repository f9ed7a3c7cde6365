//! The path of a request for a file: a valid path is below the root and not hidden.

use corelane_files::fuzzing::normal;

pub(super) fn run(raw: &str) {
    let Some(path) = normal(raw) else { return };
    assert!(!path.starts_with('/') && !path.contains("//"), "{path}");
    assert!(!path.contains(['\\', '\0', '\n', '\r']), "{path}");
    let names = path.strip_suffix('/').unwrap_or(&path).split('/').enumerate();
    for (index, name) in names.filter(|_| !path.is_empty()) {
        assert!(!name.is_empty());
        assert!(!name.starts_with('.') || (index == 0 && name == ".well-known"), "{path}");
    }
    // Encoding a character again gives the same path, except for a slash.
    let encode = |byte: u8| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02x}"),
    };
    let encoded: String = path.bytes().map(encode).collect();
    assert_eq!(normal(&encoded).as_ref(), Some(&path));
    assert_eq!(normal(&encoded.replace('/', "%2f")).is_some(), !path.contains('/'));
}
