//! Building blocks for operation descriptions.

use http::StatusCode;
use serde_json::{Map, Value, json};

pub(crate) type Path = (&'static str, Value);

pub(crate) const WORKLOADS: &str = "Workloads";

const ERRORS: [(u16, &str, &str); 16] = [
    (
        400,
        "BadRequest",
        "The request is malformed, or a parameter is; `detail` says what is allowed",
    ),
    (401, "Unauthorized", "A bearer token is needed, or the one that was sent is not accepted"),
    (404, "NotFound", "Nothing is here"),
    (408, "RequestTimeout", "The request did not come in time"),
    (412, "PreconditionFailed", "A condition of the request does not hold for what is there"),
    (413, "ContentTooLarge", "The body is larger than allowed"),
    (414, "UriTooLong", "The target is longer than allowed"),
    (415, "UnsupportedMediaType", "The body is not application/json"),
    (416, "RangeNotSatisfiable", "The range is beyond the file"),
    (417, "ExpectationFailed", "Expect has a value other than 100-continue"),
    (421, "MisdirectedRequest", "The request is meant for another server"),
    (422, "UnprocessableContent", "The document breaks a rule; `errors` points at each place"),
    (431, "RequestHeaderFieldsTooLarge", "Too many or too large header fields"),
    (500, "InternalServerError", "A handler failed"),
    (501, "NotImplemented", "A transfer coding or method that the server does not know"),
    (
        503,
        "ServiceUnavailable",
        "Overloaded, or what is needed is down; Retry-After says when to come back",
    ),
];

const ALWAYS: [u16; 9] = [400, 408, 414, 417, 421, 431, 500, 501, 503];

#[derive(Debug)]
pub(crate) struct Operation(Map<String, Value>);

impl Operation {
    pub(crate) fn new(id: &str, summary: &str) -> Self {
        let mut members = Map::new();
        members.insert("operationId".into(), id.into());
        members.insert("summary".into(), summary.into());
        members.insert("responses".into(), Map::new().into());
        Operation(members).errors(&ALWAYS)
    }

    pub(crate) fn description(mut self, text: &str) -> Self {
        self.0.insert("description".into(), text.into());
        self
    }

    pub(crate) fn parameters(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        let parameters: Vec<_> = parameters.into_iter().map(|parameter| parameter.0).collect();
        self.0.insert("parameters".into(), parameters.into());
        self
    }

    pub(crate) fn tag(mut self, name: &str) -> Self {
        self.0.insert("tags".into(), json!([name]));
        self
    }

    pub(crate) fn body(mut self, schema: Value, example: Value) -> Self {
        let content = json!({ "application/json": { "schema": schema, "example": example } });
        let body = json!({ "required": true, "content": content });
        self.0.insert("requestBody".into(), body);
        self.errors(&[413, 415, 422])
    }

    pub(crate) fn bearer(mut self) -> Self {
        self.0.insert("security".into(), json!([{ "bearer": [] }]));
        self.errors(&[401])
    }

    pub(crate) fn reply(mut self, status: u16, reply: Value) -> Self {
        self.0["responses"][status.to_string()] = reply;
        self
    }

    pub(crate) fn errors(mut self, statuses: &[u16]) -> Self {
        for (status, name, _) in ERRORS.iter().filter(|(status, ..)| statuses.contains(status)) {
            let reference = format!("#/components/responses/{name}");
            self.0["responses"][status.to_string()] = json!({ "$ref": reference });
        }
        self
    }
}

impl From<Operation> for Value {
    /// Sorts successes before errors.
    fn from(mut operation: Operation) -> Self {
        if let Some(responses) = operation.0["responses"].as_object_mut() {
            responses.sort_keys();
        }
        operation.0.into()
    }
}

/// `None` means a response without a body.
pub(crate) fn reply(description: &str, content: Option<(&str, Value)>) -> Value {
    let mut reply = json!({
        "description": description,
        "headers": {
            "corelane-replica": { "$ref": "#/components/headers/Replica" },
            "corelane-lane": { "$ref": "#/components/headers/Lane" },
        },
    });
    if let Some((media_type, schema)) = content {
        reply["content"] = json!({ media_type: { "schema": schema } });
    }
    reply
}

pub(crate) fn with_example(mut reply: Value, example: impl Into<Value>) -> Value {
    let example = example.into();
    for content in reply["content"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        content["example"] = example.clone();
    }
    reply
}

#[derive(Clone, Debug)]
pub(crate) struct Parameter(Value);

impl Parameter {
    pub(crate) fn required(place: &str, name: &str, description: &str, schema: Value) -> Self {
        let mut parameter = Parameter::optional(place, name, description, schema);
        parameter.0["required"] = true.into();
        parameter
    }

    pub(crate) fn optional(place: &str, name: &str, description: &str, schema: Value) -> Self {
        Parameter(
            json!({ "name": name, "in": place, "description": description, "schema": schema }),
        )
    }

    pub(crate) fn example(mut self, example: impl Into<Value>) -> Self {
        self.0["example"] = example.into();
        self
    }
}

pub(crate) fn components() -> Value {
    let errors: Map<_, _> = ERRORS
        .into_iter()
        .map(|(status, name, description)| (name.to_owned(), error(status, description)))
        .collect();
    json!({
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the file that auth.tokens names (RFC 6750)",
            },
        },
        "headers": {
            "Replica": header("The replica that answered", json!({ "type": "string" })),
            "Lane": header("Its lane", json!({ "type": "integer", "minimum": 0 })),
        },
        "responses": errors,
        "schemas": { "Problem": problem() },
    })
}

fn header(description: &str, schema: Value) -> Value {
    json!({ "description": description, "required": true, "schema": schema })
}

fn error(status: u16, description: &str) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    let mut reply = json!({
        "description": description,
        "content": { "application/problem+json": { "schema": schema, "example": problem_like(status) } },
    });
    let needed = match status {
        401 => Some(("WWW-Authenticate", "How to prove who asks (RFC 6750 section 3)", "string")),
        503 => Some(("Retry-After", "Seconds to wait", "integer")),
        _ => None,
    };
    if let Some((name, description, kind)) = needed {
        reply["headers"] = json!({ name: header(description, json!({ "type": kind })) });
    }
    reply
}

/// The problem that the server sends if there are no details beyond the status.
fn problem_like(status: u16) -> Value {
    let code = StatusCode::from_u16(status).unwrap_or_default();
    let name = code.canonical_reason().unwrap_or_default();
    let kind = name.to_lowercase().replace(' ', "-");
    json!({ "type": format!("urn:corelane:problem:{kind}"), "title": name, "status": status })
}

/// Members of every problem. A problem type may have more members.
fn problem() -> Value {
    json!({
        "description": "A problem document (RFC 9457)",
        "type": "object",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {
                "type": "string",
                "pattern": "^urn:corelane:problem:[a-z0-9-]+$",
                "description": "Stays the same for the same problem",
            },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string", "description": "What is wrong with this one request" },
            "parameter": { "type": "string", "description": "The parameter at fault" },
            "errors": {
                "type": "array",
                "description": "The places of a document that break a rule",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": { "type": "string", "description": "JSON Pointer (RFC 6901)" },
                        "detail": { "type": "string" },
                    },
                },
            },
        },
    })
}
