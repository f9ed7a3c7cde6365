//! Service names.

use std::path::PathBuf;

/// Helm appends to the name, and the result must be a DNS label.
const LONGEST: usize = 40;

const ALLOWED: &str = "up to 40 of a-z, 0-9 and hyphens, a letter first and no hyphen last. Keywords of Rust and \
                       names of dependencies are taken";

/// Names that the crate cannot have: Rust keywords, standard crates, and the templates'
/// dependencies.
const TAKEN: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "axum",
    "corelane",
    "corelane-client",
    "corelane-service",
    "futures-util",
    "prost",
    "protox",
    "serde",
    "sqlx",
    "tempfile",
    "tokio",
    "tokio-tungstenite",
    "tonic",
    "tonic-prost",
    "tonic-prost-build",
    "tracing",
];

/// Folder and name of a new service. The name must be a DNS label, because the image and the Helm
/// release share it.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) folder: PathBuf,
    pub(super) label: String,
}

pub(super) fn read(text: &str) -> Result<Name, &'static str> {
    let folder = PathBuf::from(text);
    let label = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_label(label) || TAKEN.contains(&label) {
        return Err(ALLOWED);
    }
    let label = label.to_owned();
    Ok(Name { folder, label })
}

fn is_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LONGEST
        && text.bytes().all(allowed)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_crates_and_dns_labels() {
        for name in ["shop", "my-shop2", "./x/shop", "s"] {
            assert!(read(name).is_ok(), "{name}");
        }
        let long = "a".repeat(41);
        for name in
            ["", "Shop", "my_shop", "2shop", "shop-", "-shop", "fn", "axum", "..", "/", &long]
        {
            assert!(read(name).is_err(), "{name}");
        }
        assert_eq!(read("a/b-c").map(|name| name.label), Ok("b-c".to_owned()));
    }
}
