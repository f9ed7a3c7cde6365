//! `/log-level` on the admin port: shows and changes the log level.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::Problem;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::Level;
use crate::value::duration;

pub(crate) const PATH: &str = "/log-level";

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The current level, and the initial one to return to.
#[derive(Clone)]
pub(crate) struct Control(Arc<Inner>);

struct Inner {
    start: Level,
    apply: Box<dyn Fn(&Level) -> bool + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    now: Level,
    until: Option<Instant>,
    watched: bool,
}

struct Change {
    level: Level,
    lasts: Option<Duration>,
}

impl Control {
    pub(super) fn new(
        start: Level,
        apply: impl Fn(&Level) -> bool + Send + Sync + 'static,
    ) -> Self {
        let state = Mutex::new(State { now: start.clone(), until: None, watched: false });
        let (apply, changed) = (Box::new(apply), Condvar::new());
        Control(Arc::new(Inner { start, apply, state, changed }))
    }

    pub(crate) fn answer(&self, request: &Request<Bytes>) -> Response<Full<Bytes>> {
        match *request.method() {
            Method::GET | Method::HEAD => self.show(),
            Method::PUT => match change(request) {
                Ok(change) => self.set(change),
                Err(problem) => problem.into_response(),
            },
            _ => Problem::from(StatusCode::METHOD_NOT_ALLOWED)
                .header(ALLOW, HeaderValue::from_static("GET, HEAD, PUT"))
                .into_response(),
        }
    }

    fn show(&self) -> Response<Full<Bytes>> {
        let state = self.0.state();
        let mut text = format!("{}\n", state.now);
        if let Some(until) = state.until {
            let left = until.saturating_duration_since(Instant::now()).as_secs();
            text += &format!("for {left} s more, then {}\n", self.0.start);
        }
        let mut reply = Response::new(Full::from(text));
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        reply.headers_mut().insert(CONTENT_TYPE, kind);
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    fn set(&self, change: Change) -> Response<Full<Bytes>> {
        {
            let mut state = self.0.state();
            let until = change.lasts.map(|lasts| Instant::now() + lasts);
            if until.is_some() && !state.watched {
                let inner = Arc::clone(&self.0);
                let watch = move || inner.watch();
                let named = std::thread::Builder::new().name("log-level".to_owned());
                if let Err(error) = named.spawn(watch) {
                    tracing::error!(%error, "cannot start the thread that ends a temporary log level");
                    return Problem::from(StatusCode::INTERNAL_SERVER_ERROR).into_response();
                }
                state.watched = true;
            }
            self.0.apply(&change.level);
            (state.now, state.until) = (change.level, until);
            self.0.changed.notify_one();
        }
        self.show()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the change before and after, because one of the two levels may hide it.
    fn apply(&self, level: &Level) {
        tracing::warn!(to = %level, "the log level is changed");
        if !(self.apply)(level) {
            tracing::error!("the log level could not be changed");
        }
    }

    /// Restores the initial level when a temporary one expires.
    fn watch(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let wait = match state.until {
                Some(until) if until <= now => {
                    self.apply(&self.start);
                    (state.now, state.until) = (self.start.clone(), None);
                    continue;
                }
                Some(until) => until - now,
                None => DAY,
            };
            let woken = self.changed.wait_timeout(state, wait);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Parses a change: the level in the body, and its duration as `?for=`.
fn change(request: &Request<Bytes>) -> Result<Change, Problem> {
    let text = str::from_utf8(request.body()).unwrap_or_default().trim();
    let level = text.parse().map_err(|allowed: String| {
        Problem::new(StatusCode::BAD_REQUEST, "bad-log-level").detail(format!("expected {allowed}"))
    })?;
    let query = request.uri().query().unwrap_or("");
    let mut lasts = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != "for" || lasts.is_some() {
            return Err(bad_parameter(&name, "the only parameter is for, once"));
        }
        let read = duration(SECOND, DAY)(&value);
        lasts = Some(read.map_err(|allowed| bad_parameter("for", &format!("expected {allowed}")))?);
    }
    Ok(Change { level, lasts })
}

fn bad_parameter(name: &str, detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-parameter").detail(detail).member("parameter", name)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    fn control() -> (Control, Receiver<String>) {
        let (sender, applied) = channel();
        let apply = move |level: &Level| sender.send(level.to_string()).is_ok();
        (Control::new("info".parse().expect("a level"), apply), applied)
    }

    fn ask(control: &Control, method: Method, target: &str, body: &'static str) -> (u16, String) {
        let request = Request::builder().method(method).uri(target).body(Bytes::from(body));
        let reply = control.answer(&request.expect("a request"));
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().now_or_never().expect("it is in memory");
        let text = body.expect("nothing can fail").to_bytes().to_vec();
        (status, String::from_utf8(text).expect("text"))
    }

    #[test]
    fn a_level_is_set_and_shown() {
        let (control, applied) = control();
        assert_eq!(ask(&control, Method::GET, "/log-level", ""), (200, "info\n".to_owned()));
        let set = ask(&control, Method::PUT, "/log-level", "debug,h2=off\n");
        assert_eq!(set, (200, "debug,h2=off\n".to_owned()));
        assert_eq!(applied.try_recv(), Ok("debug,h2=off".to_owned()));
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let (control, applied) = control();
        for (target, body) in [
            ("/log-level", "loud"),
            ("/log-level", ""),
            ("/log-level?for=5", "debug"),
            ("/log-level?for=2d", "debug"),
            ("/log-level?for=5s&for=5s", "debug"),
            ("/log-level?until=5s", "debug"),
        ] {
            assert_eq!(ask(&control, Method::PUT, target, body).0, 400, "{target} {body}");
        }
        assert_eq!(ask(&control, Method::DELETE, "/log-level", "").0, 405);
        assert!(applied.try_recv().is_err());
    }

    #[test]
    fn a_temporary_level_ends_unless_another_takes_its_place() {
        let (control, applied) = control();
        let patience = Duration::from_secs(60);
        let (_, shown) = ask(&control, Method::PUT, "/log-level?for=1h", "debug");
        assert!(shown.starts_with("debug\nfor 3") && shown.ends_with("then info\n"), "{shown}");
        ask(&control, Method::PUT, "/log-level?for=1s", "trace");
        let levels: Vec<_> =
            (0..3).map(|_| applied.recv_timeout(patience).expect("applied")).collect();
        assert_eq!(levels, ["debug", "trace", "info"]);
        assert_eq!(ask(&control, Method::GET, "/log-level", "").1, "info\n");
    }
}
