//! The OpenAPI document (3.1) and its HTML page, generated from the routes.
//!
//! Each handler describes its own path next to its code, in the terms of `openapi`.

mod page;
mod serve;

use serde_json::{Map, Value, json};

pub(crate) use serve::Documents;

use crate::config::Config;
use crate::files;
use crate::handlers::{div, hello, root, work};
use crate::openapi;
use crate::projects;

/// What a server with this configuration answers.
fn document(config: &Config) -> Value {
    let mut paths = vec![root::describe(), hello::describe(), div::describe()];
    paths.push(work::describe(config.work_max_ops));
    if config.static_root.is_some() {
        paths.extend(files::describe());
    }
    if config.serves_projects() {
        paths.extend(projects::describe());
    }
    paths.extend(serve::describe());
    let paths: Map<_, _> = paths.into_iter().map(|(path, item)| (path.to_owned(), item)).collect();
    let mut components = openapi::components();
    if config.serves_projects()
        && let Some(schemas) = components["schemas"].as_object_mut()
    {
        schemas.extend(projects::schemas());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Corelane reference service",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "What answers GET answers HEAD, too, without a body; OPTIONS lists the \
                methods of a path in Allow. Every error is a problem document (RFC 9457).",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": components,
    })
}
