//! OpenAPI description of projects.

use serde_json::{Map, Value, json};

use crate::openapi::{self, Operation, Parameter};

const TAG: &str = "Projects";

const ID: &str = "0199d0f4-6d1c-7a30-9c51-2f3f0c1d9a77";

fn sent() -> Value {
    json!({
        "name": "New roof",
        "description": "Before the winter",
        "status": "active",
        "tags": ["house"],
        "tasks": [{ "title": "Compare three offers", "done": true }],
    })
}

fn stored() -> Value {
    let mut project = json!({
        "id": ID,
        "version": 1,
        "created": "2026-05-04T08:15:00Z",
        "updated": "2026-05-04T08:15:00Z",
    });
    if let (Some(members), Value::Object(sent)) = (project.as_object_mut(), sent()) {
        members.extend(sent);
    }
    project
}

pub(crate) fn describe() -> [openapi::Path; 2] {
    let all = json!({ "get": Value::from(list()), "post": Value::from(create()) });
    let one = json!({
        "get": Value::from(read()),
        "put": Value::from(replace()),
        "delete": Value::from(delete()),
    });
    [("/projects", all), ("/projects/{id}", one)]
}

pub(crate) fn schemas() -> Map<String, Value> {
    let document = json!({
        "type": "object",
        "description": "What a client says of a project; at most 64 KiB",
        "required": ["name"],
        "additionalProperties": false,
        "properties": members(),
    });
    let mut with_own = own_members();
    with_own.extend(members());
    let project = json!({
        "type": "object",
        "required": ["id", "version", "created", "updated", "name"],
        "additionalProperties": false,
        "properties": with_own,
    });
    let page = json!({
        "type": "object",
        "required": ["projects", "next"],
        "additionalProperties": false,
        "properties": {
            "projects": { "type": "array", "items": reference("Project"), "maxItems": 100 },
            "next": {
                "type": ["string", "null"],
                "description": "The cursor of the next page; null on the last one",
            },
        },
    });
    let named = [("ProjectDocument", document), ("Project", project), ("ProjectPage", page)];
    named.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn members() -> Map<String, Value> {
    let text = |min: u32, max: u32| json!({ "type": "string", "minLength": min, "maxLength": max });
    let task = json!({
        "type": "object",
        "required": ["title"],
        "additionalProperties": false,
        "properties": {
            "title": text(1, 200),
            "done": { "type": "boolean" },
            "notes": text(0, 2000),
        },
    });
    let members = [
        ("name", text(1, 200)),
        ("description", text(0, 2000)),
        ("status", json!({ "enum": ["planned", "active", "done"] })),
        ("tags", json!({ "type": "array", "items": text(1, 50), "maxItems": 20 })),
        ("tasks", json!({ "type": "array", "items": task, "maxItems": 200 })),
    ];
    members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn own_members() -> Map<String, Value> {
    let time = json!({ "type": "string", "format": "date-time" });
    let members = [
        ("id", json!({ "type": "string", "format": "uuid" })),
        ("version", json!({ "type": "integer", "minimum": 1 })),
        ("created", time.clone()),
        ("updated", time),
    ];
    members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn list() -> Operation {
    // The pattern is for tools that check cursors. Clients use cursors unchanged.
    let cursor = json!({
        "type": "string",
        "pattern": "^A[Q-Za-f][A-Za-z0-9_-]{20}[AEIMQUYcgkosw048]$",
    });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 });
    let content = ("application/json", reference("ProjectPage"));
    let page = openapi::reply("A page of projects", Some(content));
    Operation::new("listProjects", "Projects in the order of their ids")
        .tag(TAG)
        .description("A page may end short of its limit where the documents are large")
        .parameters([
            Parameter::optional(
                "query",
                "cursor",
                "The `next` of the page before, unchanged",
                cursor,
            ),
            Parameter::optional("query", "limit", "Most projects of the page, 1 to 100", limit)
                .example(20),
        ])
        .reply(200, openapi::with_example(page, json!({ "projects": [stored()], "next": null })))
}

fn create() -> Operation {
    let mut created = project("The project as it is durably stored");
    created["headers"]["Location"] = json!({
        "description": "Its path",
        "required": true,
        "schema": { "type": "string" },
    });
    Operation::new("createProject", "Make a project")
        .tag(TAG)
        .body(reference("ProjectDocument"), sent())
        .bearer()
        .reply(201, created)
}

fn read() -> Operation {
    let unchanged = openapi::reply("The client's copy is current", None);
    Operation::new("readProject", "One project")
        .tag(TAG)
        .parameters(one())
        .reply(200, project("The project"))
        .reply(304, unchanged)
        .errors(&[404, 412])
}

fn replace() -> Operation {
    Operation::new("replaceProject", "Put another document in the place of a project's")
        .tag(TAG)
        .parameters(one())
        .body(reference("ProjectDocument"), sent())
        .bearer()
        .reply(200, project("The project as it is durably stored"))
        .errors(&[404, 412])
}

fn delete() -> Operation {
    Operation::new("deleteProject", "Remove a project")
        .tag(TAG)
        .parameters(one())
        .bearer()
        .reply(204, openapi::reply("It is gone", None))
        .errors(&[404, 412])
}

fn project(description: &str) -> Value {
    let reply = openapi::reply(description, Some(("application/json", reference("Project"))));
    let mut reply = openapi::with_example(reply, stored());
    reply["headers"]["ETag"] = json!({
        "description": "Its version, for If-Match and If-None-Match",
        "required": true,
        "schema": { "type": "string" },
    });
    reply
}

fn one() -> [Parameter; 3] {
    [
        id(),
        condition("If-Match", "Does it only for one of these versions"),
        condition("If-None-Match", "Does it only for other versions than these"),
    ]
}

fn id() -> Parameter {
    let pattern = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    let schema = json!({ "type": "string", "format": "uuid", "pattern": pattern });
    Parameter::required("path", "id", "The project's id, a UUID", schema).example(ID)
}

/// Entity tags (RFC 9110 section 8.8.3) in a list that may have empty elements (section 5.6.1).
fn condition(name: &str, about: &str) -> Parameter {
    let tag = r#"(W/)?"[!#-~\u0080-\u00ff]*""#;
    let list = format!("[ ,]*|[ ,]*{tag}( *,[ ,]*{tag})*[ ,]*");
    let schema = json!({ "type": "string", "pattern": format!("^(\\*|{list})$") });
    // There is no example, because viewers would send it with each request.
    let about = format!("{about}: entity tags from ETag such as \"1\", or * for any");
    Parameter::optional("header", name, &about, schema)
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}
