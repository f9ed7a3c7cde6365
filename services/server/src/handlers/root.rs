//! `GET /`: identifies the replica.

use std::cell::RefCell;

use bytes::Bytes;
use corelane::Lane;
use http::{HeaderMap, Response};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::openapi::{self, Operation};

/// A lane's identity, of which only the CPU may change.
pub(crate) struct Root {
    replica: String,
    lane: Lane,
    said: RefCell<(Option<usize>, Bytes)>,
}

impl Root {
    pub(crate) fn new(replica: &str, lane: &Lane) -> Root {
        let cpu = lane.cpu();
        let said = RefCell::new((cpu, text(replica, lane.index(), cpu)));
        Root { replica: replica.to_owned(), lane: lane.clone(), said }
    }

    pub(crate) fn reply(&self, map: HeaderMap) -> Response<Full<Bytes>> {
        let mut said = self.said.borrow_mut();
        let cpu = self.lane.cpu();
        if said.0 != cpu {
            *said = (cpu, text(&self.replica, self.lane.index(), cpu));
        }
        super::ok(map, super::JSON, said.1.clone())
    }
}

pub(crate) fn describe() -> openapi::Path {
    let schema = json!({
        "type": "object",
        "required": ["service", "version", "replica", "lane", "cpu"],
        "additionalProperties": false,
        "properties": {
            "service": { "type": "string" },
            "version": { "type": "string" },
            "replica": { "type": "string" },
            "lane": { "type": "integer", "minimum": 0 },
            "cpu": {
                "type": ["integer", "null"],
                "minimum": 0,
                "description": "The CPU that the lane is pinned to; null where lanes are not pinned",
            },
        },
    });
    let reply = openapi::reply("The replica that replied", Some(("application/json", schema)));
    let example = json!({
        "service": "corelane-server",
        "version": env!("CARGO_PKG_VERSION"),
        "replica": "demo-6d5f9c7b8-x2x7q",
        "lane": 0,
        "cpu": 4,
    });
    let get = Operation::new("root", "Which replica and lane answered")
        .tag(openapi::WORKLOADS)
        .reply(200, openapi::with_example(reply, example));
    ("/", json!({ "get": Value::from(get) }))
}

fn text(replica: &str, lane: usize, cpu: Option<usize>) -> Bytes {
    let me = json!({
        "service": "corelane-server",
        "version": env!("CARGO_PKG_VERSION"),
        "replica": replica,
        "lane": lane,
        "cpu": cpu,
    });
    Bytes::from(format!("{me}\n"))
}
