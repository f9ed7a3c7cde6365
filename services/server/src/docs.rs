//! The OpenAPI document (3.1), generated from the routes.
//!
//! Each handler describes its own path next to its code, in the terms of `openapi`.

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::files;
use crate::handlers::{div, hello, root, work};
use crate::openapi::{self, Operation, Parameter, Path, reply};
use crate::projects;

/// What a server with this configuration answers.
pub(crate) fn document(config: &Config) -> Value {
    let mut paths = vec![root::describe(), hello::describe(), div::describe()];
    paths.extend(work::describe(config.work_max_ops));
    if config.static_root.is_some() {
        paths.extend(files::describe());
    }
    if config.serves_projects() {
        paths.extend(projects::describe());
    }
    paths.extend(describe());
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

fn describe() -> [Path; 2] {
    let operation = |id: &str, summary: &str, media_type: &str, schema: Value| {
        let known = Parameter::optional(
            "header",
            "If-None-Match",
            "ETag of a copy that the client has",
            json!({ "type": "string" }),
        );
        let operation = Operation::new(id, summary)
            .parameters([known])
            .reply(200, reply("The document", Some((media_type, schema))))
            .reply(304, reply("The client's copy is the present one", None));
        json!({ "get": Value::from(operation) })
    };
    let object = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    let text = json!({ "type": "string" });
    [
        ("/openapi.json", operation("document", "This document", "application/json", object)),
        ("/docs", operation("page", "This document as a page", "text/html; charset=utf-8", text)),
    ]
}
