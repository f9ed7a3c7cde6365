//! The OpenAPI document (3.1), generated from the routes.
//!
//! Each handler describes its path next to its code, with the functions of `openapi`.

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::files;
use crate::handlers::{div, hello, root, work};
use crate::openapi::{self, Operation, Parameter, Path, reply};
use crate::projects;

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
        "tags": tags(config),
        "paths": paths,
        "components": components,
    })
}

fn tags(config: &Config) -> Value {
    let mut tags = vec![(openapi::WORKLOADS, "Responses of a known cost, for measurements")];
    if config.serves_projects() {
        tags.push((
            "Projects",
            "Documents in a database, with versions. Writes need a bearer token",
        ));
    }
    if config.static_root.is_some() {
        tags.push(("Files", "Files below a folder, with ranges and conditions"));
    }
    tags.push((DOCUMENTATION, "This document, and its page"));
    tags.into_iter().map(|(name, about)| json!({ "name": name, "description": about })).collect()
}

const DOCUMENTATION: &str = "Documentation";

fn describe() -> [Path; 3] {
    let operation = |id: &str, summary: &str, media_type: &str, schema: Value| {
        let known = Parameter::optional(
            "header",
            "If-None-Match",
            "ETag of a copy that the client has",
            json!({ "type": "string" }),
        );
        let operation = Operation::new(id, summary)
            .tag(DOCUMENTATION)
            .parameters([known])
            .reply(200, reply("The document", Some((media_type, schema))))
            .reply(304, reply("The client's copy is current", None));
        json!({ "get": Value::from(operation) })
    };
    let object = json!({ "type": "object", "required": ["openapi", "info", "paths"] });
    let text = json!({ "type": "string" });
    let name = Parameter::required(
        "path",
        "file",
        "Name of the file",
        json!({ "enum": ["swagger-ui-bundle.js", "swagger-ui.css", "start.js"] }),
    );
    let mut content = reply("The file", Some(("text/javascript; charset=utf-8", text.clone())));
    content["content"]["text/css; charset=utf-8"] = json!({ "schema": text });
    let file = Operation::new("pageFile", "A file of that page, compressed by gzip")
        .tag(DOCUMENTATION)
        .parameters([name.example("swagger-ui.css")])
        .reply(200, content)
        .reply(304, reply("The client's copy is current", None))
        .errors(&[404]);
    [
        ("/openapi.json", operation("document", "This document", "application/json", object)),
        ("/docs", operation("page", "This document as a page", "text/html; charset=utf-8", text)),
        ("/docs/{file}", json!({ "get": Value::from(file) })),
    ]
}
