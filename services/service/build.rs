//! Extracts the two Swagger UI files that an OpenAPI page needs from the archive in the crate. The
//! files stay compressed, because a gzip header and a checksum turn a deflated file from an archive
//! into a gzip file.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "openapi-viewer")]
    viewer::extract();
}

#[cfg(feature = "openapi-viewer")]
mod viewer {
    use std::path::PathBuf;

    use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED as ARCHIVE;

    const FILES: [&str; 2] = ["swagger-ui-bundle.js", "swagger-ui.css"];

    pub(crate) fn extract() {
        let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("Cargo sets it"));
        let mut missing = FILES.to_vec();
        let end = ARCHIVE.windows(4).rposition(|bytes| bytes == b"PK\x05\x06").expect("its end");
        let (mut at, entries) = (number(end + 16, 4), number(end + 10, 2));
        for _ in 0..entries {
            let [name, extra, comment] = [28, 30, 32].map(|field| number(at + field, 2));
            let path = String::from_utf8_lossy(&ARCHIVE[at + 46..at + 46 + name]);
            if let Some(place) =
                missing.iter().position(|file| path.ends_with(&format!("/dist/{file}")))
            {
                let file = missing.swap_remove(place);
                std::fs::write(folder.join(format!("{file}.gz")), gzip(at))
                    .expect("OUT_DIR is writable");
            }
            at += 46 + name + extra + comment;
        }
        assert!(missing.is_empty(), "the archive of Swagger UI lacks {missing:?}");
    }

    fn gzip(entry: usize) -> Vec<u8> {
        assert_eq!(number(entry + 10, 2), 8, "the file is deflated");
        let (compressed, header) = (number(entry + 20, 4), number(entry + 42, 4));
        let begin = header + 30 + number(header + 26, 2) + number(header + 28, 2);
        let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        out.extend(&ARCHIVE[begin..begin + compressed]);
        // The checksum, and the size of the original.
        out.extend(&ARCHIVE[entry + 16..entry + 20]);
        out.extend(&ARCHIVE[entry + 24..entry + 28]);
        out
    }

    fn number(at: usize, bytes: usize) -> usize {
        ARCHIVE[at..at + bytes].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte))
    }
}
