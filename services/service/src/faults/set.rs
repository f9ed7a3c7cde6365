//! Parses faults from JSON and validates them.

use std::time::{Duration, Instant};

use corelane::Problem;
use http::{Method, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

const MAX_FAULTS: usize = 64;
/// Maximum duration, so that forgotten faults end.
const MAX_EXPIRY: Duration = Duration::from_secs(3600);
pub(super) const MAX_LATENCY: Duration = Duration::from_secs(60);
/// Maximum time to block a lane. The block cannot be interrupted.
pub(super) const MAX_BURN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Set {
    /// Seed that each lane combines with its index.
    pub(super) seed: u64,
    pub(super) faults: Vec<Fault>,
}

#[derive(Debug)]
pub(super) struct Fault {
    pub(super) route: usize,
    route_name: String,
    method: Option<Method>,
    pub(super) share: f64,
    pub(super) effect: Effect,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// Wait for `fixed` and up to `jitter` more, while the lane serves other requests.
    Latency {
        fixed: Duration,
        jitter: Duration,
    },
    /// Respond with this status without calling the handler.
    Error(StatusCode),
    Cpu(Duration),
}

impl Effect {
    /// Names of the effects in metrics and responses, indexed by [`Effect::index`].
    pub(super) const NAMES: [&'static str; 3] = ["latency", "error", "cpu"];

    pub(super) fn index(self) -> usize {
        match self {
            Effect::Latency { .. } => 0,
            Effect::Error(_) => 1,
            Effect::Cpu(_) => 2,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    seed: Option<u64>,
    faults: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    route: String,
    method: Option<String>,
    share: f64,
    latency: Option<Latency>,
    error: Option<Error>,
    cpu: Option<Cpu>,
    #[serde(deserialize_with = "duration")]
    expires_in: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Latency {
    #[serde(deserialize_with = "duration")]
    fixed: Duration,
    #[serde(default, deserialize_with = "duration")]
    jitter: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Error {
    status: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cpu {
    #[serde(deserialize_with = "duration")]
    burn: Duration,
}

fn duration<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(input)?;
    humantime::parse_duration(&text)
        .map_err(|_| serde::de::Error::custom("a duration has a unit, as in 250ms, 5s or 10m"))
}

impl Set {
    pub(super) fn parse(body: &[u8], routes: &[&str], now: Instant) -> Result<Self, Problem> {
        let document: Document = serde_json::from_slice(body).map_err(|error| {
            let (status, slug) = match error.is_data() {
                true => (StatusCode::UNPROCESSABLE_ENTITY, "invalid-faults"),
                false => (StatusCode::BAD_REQUEST, "bad-json"),
            };
            Problem::new(status, slug).detail(error.to_string())
        })?;
        if document.faults.len() > MAX_FAULTS {
            return Err(invalid("/faults", &format!("must have {MAX_FAULTS} entries at most")));
        }
        let entries = document.faults.into_iter().enumerate();
        let faults = entries
            .map(|(index, entry)| {
                Fault::judge(entry, routes, now).map_err(|(member, allowed)| {
                    invalid(&format!("/faults/{index}{member}"), &allowed)
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Set { seed: document.seed.unwrap_or_else(|| fastrand::u64(..)), faults })
    }

    pub(super) fn show(&self, now: Instant) -> Value {
        let faults: Vec<_> = self
            .faults
            .iter()
            .filter(|fault| fault.lasts(now))
            .map(|fault| fault.show(now))
            .collect();
        json!({ "seed": self.seed, "faults": faults })
    }
}

fn invalid(pointer: &str, allowed: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-faults")
        .detail(format!("{pointer} {allowed}"))
        .member("pointer", pointer)
}

type Wrong = (&'static str, String);

impl Fault {
    fn judge(entry: Entry, routes: &[&str], now: Instant) -> Result<Self, Wrong> {
        let known = routes.iter().position(|route| *route == entry.route);
        let route =
            known.ok_or_else(|| ("/route", format!("must be one of {}", routes.join(" "))))?;
        let method = entry.method.map(|method| Method::from_bytes(method.as_bytes())).transpose();
        let method = method.map_err(|_| ("/method", "must be a method of HTTP".to_owned()))?;
        // NaN is outside every range and cannot occur in JSON.
        if !(entry.share > 0.0 && entry.share <= 1.0) {
            return Err(("/share", "must be above 0 and at most 1".to_owned()));
        }
        within("/expires_in", entry.expires_in, MAX_EXPIRY)?;
        let effect = effect(entry.latency, entry.error, entry.cpu)?;
        let until = now + entry.expires_in;
        Ok(Fault { route, route_name: entry.route, method, share: entry.share, effect, until })
    }

    pub(super) fn lasts(&self, now: Instant) -> bool {
        now < self.until
    }

    pub(super) fn concerns(&self, route: usize, method: &Method) -> bool {
        self.route == route && self.method.as_ref().is_none_or(|one| one == method)
    }

    fn show(&self, now: Instant) -> Value {
        let effect = match self.effect {
            Effect::Latency { fixed, jitter } => {
                json!({ "fixed": text(fixed), "jitter": text(jitter) })
            }
            Effect::Error(status) => json!({ "status": status.as_u16() }),
            Effect::Cpu(burn) => json!({ "burn": text(burn) }),
        };
        let mut shown = json!({
            "route": self.route_name,
            "share": self.share,
            Effect::NAMES[self.effect.index()]: effect,
            "expires_in": text(self.until.saturating_duration_since(now)),
        });
        if let Some(method) = &self.method {
            shown["method"] = method.as_str().into();
        }
        shown
    }
}

fn text(duration: Duration) -> String {
    let duration = Duration::from_millis(duration.as_millis() as u64);
    humantime::format_duration(duration).to_string()
}

fn effect(
    latency: Option<Latency>,
    error: Option<Error>,
    cpu: Option<Cpu>,
) -> Result<Effect, Wrong> {
    match (latency, error, cpu) {
        (Some(Latency { fixed, jitter }), None, None) => {
            within("/latency", fixed.saturating_add(jitter), MAX_LATENCY)?;
            Ok(Effect::Latency { fixed, jitter })
        }
        (None, Some(Error { status }), None) => {
            let status = Some(status).filter(|status| (400..600).contains(status));
            let status = status.and_then(|status| StatusCode::from_u16(status).ok());
            let allowed = || ("/error/status", "must be from 400 to 599".to_owned());
            status.map(Effect::Error).ok_or_else(allowed)
        }
        (None, None, Some(Cpu { burn })) => {
            within("/cpu/burn", burn, MAX_BURN)?;
            Ok(Effect::Cpu(burn))
        }
        _ => Err(("", "must have one of latency, error and cpu".to_owned())),
    }
}

fn within(member: &'static str, duration: Duration, most: Duration) -> Result<(), Wrong> {
    match duration {
        Duration::ZERO => Err((member, "must be above 0".to_owned())),
        longer if longer > most => Err((member, format!("must be {} at most", text(most)))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const ROUTES: [&str; 2] = ["/", "/div/{n}"];

    fn fault(with: &str) -> String {
        format!(
            r#"{{"faults": [{{"route": "/div/{{n}}", "share": 1, "expires_in": "1m"{with}}}]}}"#
        )
    }

    fn refused(body: &str) -> (StatusCode, String) {
        let problem = Set::parse(body.as_bytes(), &ROUTES, Instant::now()).expect_err(body);
        let (head, body) = problem.into_response().into_parts();
        let collected = futures_util::FutureExt::now_or_never(body.collect());
        let bytes = collected.expect("in memory").expect("no error").to_bytes();
        (head.status, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    #[test]
    fn faults_end_when_they_say() {
        let now = Instant::now();
        let body = fault(r#", "error": {"status": 503}, "method": "GET""#);
        let set = Set::parse(body.as_bytes(), &ROUTES, now).expect("a set");
        let fault = &set.faults[0];
        assert!(fault.concerns(1, &Method::GET));
        assert!(!fault.concerns(1, &Method::HEAD) && !fault.concerns(0, &Method::GET));
        let end = now + Duration::from_secs(60);
        assert!(fault.lasts(end - Duration::from_nanos(1)) && !fault.lasts(end));
        let shown = set.show(now + Duration::from_secs(20));
        assert_eq!(shown["faults"][0]["expires_in"], "40s");
        assert_eq!(shown["faults"][0]["error"]["status"], 503);
        assert_eq!(set.show(end)["faults"], json!([]));
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        let one = |with: &str| fault(with);
        let error = r#", "error": {"status": 503}"#;
        let cases = [
            (one(""), "one of latency, error and cpu"),
            (one(r#", "error": {"status": 503}, "cpu": {"burn": "1ms"}"#), "one of latency"),
            (one(r#", "error": {"status": 399}"#), "/faults/0/error/status"),
            (one(r#", "error": {"status": 600}"#), "/faults/0/error/status"),
            (one(r#", "latency": {"fixed": "59s", "jitter": "2s"}"#), "/faults/0/latency"),
            (one(r#", "latency": {"fixed": "0s"}"#), "/faults/0/latency"),
            (one(r#", "latency": {"fixed": 5}"#), "invalid type"),
            (one(r#", "latency": {"fixed": "5"}"#), "has a unit"),
            (one(r#", "cpu": {"burn": "11s"}"#), "/faults/0/cpu/burn"),
            (one(r#", "abort": {}"#), "unknown field"),
            (one(&format!(r#"{error}, "method": "G T""#)), "/faults/0/method"),
            (one(error).replace("1m", "61m"), "/faults/0/expires_in"),
            (one(error).replace("1m", "0s"), "/faults/0/expires_in"),
            (one(error).replace(r#""share": 1"#, r#""share": 0"#), "/faults/0/share"),
            (one(error).replace(r#""share": 1"#, r#""share": 1.1"#), "/faults/0/share"),
            (one(error).replace("{n}", "{m}"), "/ /div/{n}"),
            (one(error).replace(r#", "expires_in": "1m""#, ""), "missing field"),
        ];
        for (body, want) in cases {
            let (status, text) = refused(&body);
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
            assert!(text.contains(want), "{body}: {text}");
        }
        assert_eq!(refused("{").0, StatusCode::BAD_REQUEST);
    }
}
