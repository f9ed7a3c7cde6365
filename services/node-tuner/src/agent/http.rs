//! Probes, metrics and reports.

use std::sync::Arc;

use corelane_service::http::Answer;
use hyper::StatusCode;
use serde_json::{Value, json};

use super::metrics;
use super::status::{Facts, Status};
use crate::proof;

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The reply to a GET of this path.
pub(crate) fn answer(path: &str, status: &Arc<Status>) -> Answer {
    let fine = || (StatusCode::OK, PLAIN, "ok\n".to_owned());
    match path {
        "/healthz" => fine(),
        "/readyz" => status.facts().ready().map_or_else(|words| not_yet(&words), |()| fine()),
        "/metrics" => (StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(status)),
        "/audit" => audit(&status.facts(), false),
        "/audit.json" => audit(&status.facts(), true),
        "/proof" => proven(&status.facts(), false),
        "/proof.json" => proven(&status.facts(), true),
        _ => (StatusCode::NOT_FOUND, PLAIN, "not found\n".to_owned()),
    }
}

fn not_yet(words: &str) -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{words}\n"))
}

fn audit(facts: &Facts, as_json: bool) -> Answer {
    let Some(pass) = &facts.pass else { return not_yet("the first pass has not ended") };
    if as_json {
        // The JSON of `audit --output json`, with fields that only an agent has.
        let mut value: Value = serde_json::from_str(&pass.report.json()).unwrap_or_default();
        value["mode"] = json!(facts.mode.text());
        value["journal"] = json!(pass.journalled);
        value["error"] = json!(pass.error);
        return (StatusCode::OK, JSON, format!("{value:#}\n"));
    }
    let mut text = pass.report.table();
    if let Some(settings) = facts.left_tuned() {
        text += &format!("{}\n", super::left_tuned(settings));
    }
    if let Some(error) = &pass.error {
        text += &format!("The last pass failed: {error}\n");
    }
    (StatusCode::OK, PLAIN, text)
}

fn proven(facts: &Facts, as_json: bool) -> Answer {
    match (&facts.proof, as_json) {
        (Err(reason), _) => not_yet(reason),
        (Ok(proof), true) => {
            let text = serde_json::to_string_pretty(proof).expect("a proof has names for keys");
            (StatusCode::OK, JSON, text + "\n")
        }
        (Ok(proof), false) => (StatusCode::OK, PLAIN, proof::table(std::slice::from_ref(proof))),
    }
}
