//! Swagger UI, whose files `build.rs` copies from its crate. Only browsers request the files, so
//! they are always compressed.

use super::Document;

macro_rules! vendored {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")).as_slice()
    };
}

pub(super) fn files() -> Vec<(&'static str, Document)> {
    let (script, style) = ("text/javascript; charset=utf-8", "text/css; charset=utf-8");
    let gzip = |text, media_type| Document { is_gzip: true, ..Document::new(text, media_type) };
    vec![
        ("swagger-ui-bundle.js", gzip(vendored!("swagger-ui-bundle.js"), script)),
        ("swagger-ui.css", gzip(vendored!("swagger-ui.css"), style)),
        ("start.js", Document::new(include_str!("start.js"), script)),
    ]
}
