//! Faults for drills: latency, errors and blocked lanes, for a share of a route's requests. Cargo
//! feature `faults`.
//!
//! Faults require `faults = on` and are set through `/faults` on the admin port.
//! [`Start::faults`](crate::Start::faults) returns the process's faults, and [`Faults::lane`]
//! returns a lane's [`Injector`], which is a `tower::Layer` for the entire service.

mod layer;
mod metrics;
mod set;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::Problem;
use fastrand::Rng;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;

use crate::per_lane::{Apart, PerLane};
use crate::value::switch;
pub use layer::{Faulty, FaultyReply};
pub(crate) use metrics::FaultCollector;
use metrics::Injected;
use set::{Effect, MAX_BURN, MAX_LATENCY, Set};

const FAULT: HeaderName = HeaderName::from_static("corelane-fault");

settings! {
    pub(crate) struct FaultKeys {
        "faults" => faults: bool = "off", switch,
            "Whether faults may be injected on the admin port: on or off";
    }
}

/// The process's active faults; disabled unless `faults = on`.
///
/// ```no_run
/// use axum::Router;
/// use axum::routing::get;
/// use corelane_service::App;
///
/// // Faults name these route templates.
/// let app = App::<()>::new("shop", "1.0.0", "Sells things").routes(["/"]);
/// app.run(|(), start| {
///     let faults = start.faults();
///     Ok(start.serve(move |lane| {
///         Router::new().route("/", get(|| async { "welcome" })).layer(faults.lane(lane.index()))
///     })?)
/// });
/// ```
#[derive(Debug, Default)]
pub struct Faults {
    enabled: bool,
    routes: Vec<&'static str>,
    matcher: matchit::Router<usize>,
    current: RwLock<Arc<Set>>,
    /// Incremented with each change, so that a lane takes the lock only after a change.
    generation: AtomicU64,
    injected: PerLane<Injected>,
}

impl Faults {
    /// An invalid template never matches.
    pub(crate) fn new(routes: Vec<&'static str>, enabled: bool) -> Self {
        let mut matcher = matchit::Router::new();
        for (index, route) in routes.iter().enumerate() {
            let _ = matcher.insert(*route, index);
        }
        Faults {
            enabled,
            routes,
            matcher,
            current: RwLock::default(),
            generation: AtomicU64::default(),
            injected: PerLane::default(),
        }
    }

    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    fn current(&self) -> Arc<Set> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, set: Set) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Creates the injector of the lane with this index. Call it once per lane.
    pub fn lane(self: &Arc<Self>, lane: usize) -> Injector {
        let generation = self.generation.load(Ordering::Acquire);
        Injector(Arc::new(Inner {
            injected: self.injected.add(Injected::new(self.routes.len())),
            seen: Mutex::new(Seen::new(generation, self.current(), lane)),
            enabled: self.enabled,
            faults: Arc::clone(self),
            lane,
        }))
    }
}

/// Picks requests and their faults on one lane. As a `tower::Layer`, it also applies them.
///
/// It may be sent to another thread, as axum requires, but its metrics are exact only on one
/// thread.
#[derive(Clone, Debug)]
pub struct Injector(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    enabled: bool,
    faults: Arc<Faults>,
    lane: usize,
    injected: Arc<Apart<Injected>>,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    generation: u64,
    set: Arc<Set>,
    chance: Rng,
}

impl Seen {
    fn new(generation: u64, set: Arc<Set>, lane: usize) -> Self {
        // The same seed and requests lead to the same faults, which differ between lanes.
        let chance = Rng::with_seed(set.seed.wrapping_add(lane as u64));
        Seen { generation, set, chance }
    }
}

impl Injector {
    /// The faults of a request, usually none.
    pub fn choose(&self, path: &str, method: &Method) -> Option<Injection> {
        let Inner { enabled, faults, injected, .. } = &*self.0;
        if !enabled {
            return None;
        }
        let generation = faults.generation.load(Ordering::Acquire);
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.generation != generation {
            *seen = Seen::new(generation, faults.current(), self.0.lane);
        }
        let Seen { set, chance, .. } = &mut *seen;
        if set.faults.is_empty() {
            return None;
        }
        let route = *faults.matcher.at(path).ok()?.value;
        let now = Instant::now();
        let mut chosen = Injection::default();
        for fault in &set.faults {
            let concerned = fault.concerns(route, method) && fault.lasts(now);
            if concerned && chance.f64() < fault.share {
                chosen.add(fault.effect, chance);
                injected.note(route, fault.effect);
            }
        }
        chosen.effects.contains(&true).then_some(chosen)
    }
}

/// Faults of one request, before or in place of its handler.
#[derive(Debug, Default)]
pub struct Injection {
    wait: Duration,
    burn: Duration,
    error: Option<StatusCode>,
    effects: [bool; Effect::NAMES.len()],
}

impl Injection {
    /// Together, faults stay within the limit of a single fault. The first of several errors
    /// becomes the response.
    fn add(&mut self, effect: Effect, chance: &mut Rng) {
        self.effects[effect.index()] = true;
        match effect {
            Effect::Latency { fixed, jitter } => {
                let wait = self.wait + fixed + jitter.mul_f64(chance.f64());
                self.wait = wait.min(MAX_LATENCY);
            }
            Effect::Error(status) => self.error = self.error.or(Some(status)),
            Effect::Cpu(burn) => self.burn = (self.burn + burn).min(MAX_BURN),
        }
    }

    /// Waits, then blocks the lane. Returns the response that replaces the handler's, if any.
    pub async fn inject(&self) -> Option<Response<Full<Bytes>>> {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait).await;
        }
        hold(self.burn);
        let problem = Problem::new(self.error?, "fault-injected");
        Some(problem.detail("this error was injected on the admin port").into_response())
    }

    /// Names the injected faults in the response.
    pub fn sign(&self, headers: &mut HeaderMap) {
        let names = Effect::NAMES.iter().zip(self.effects).filter(|(_, done)| *done);
        for (name, _) in names {
            headers.append(FAULT, HeaderValue::from_static(name));
        }
    }
}

/// Burns CPU for this time, which blocks the lane.
fn hold(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        black_box(begun);
    }
}

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE");

/// `/faults` on the admin port: lists, replaces and clears faults. Rejects every request unless
/// `faults = on`.
pub(crate) fn handler(
    faults: Arc<Faults>,
) -> impl Fn(Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static {
    move |request| match faults.enabled {
        true => faults.answer(&request).unwrap_or_else(Problem::into_response),
        false => Problem::new(StatusCode::FORBIDDEN, "faults-off")
            .detail("this server was not started with faults = on")
            .into_response(),
    }
}

impl Faults {
    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Full<Bytes>>, Problem> {
        match *request.method() {
            Method::GET | Method::HEAD => {}
            Method::PUT => {
                let set = Set::parse(request.body(), &self.routes, Instant::now())?;
                tracing::warn!(faults = set.faults.len(), seed = set.seed, "faults are injected");
                self.replace(set);
            }
            Method::DELETE => {
                self.replace(Set::default());
                tracing::info!("faults were cleared");
            }
            _ => return Err(Problem::from(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, METHODS)),
        }
        let text = format!("{:#}\n", self.current().show(Instant::now()));
        let mut reply = Response::new(Full::from(text));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adds_up_is_bounded() {
        let (mut sum, mut chance) = (Injection::default(), Rng::with_seed(7));
        let latency = Effect::Latency { fixed: MAX_LATENCY / 4, jitter: Duration::ZERO };
        let burn = Effect::Cpu(MAX_BURN / 4);
        for _ in 0..2 {
            sum.add(latency, &mut chance);
            sum.add(burn, &mut chance);
        }
        assert_eq!((sum.wait, sum.burn), (MAX_LATENCY / 2, MAX_BURN / 2));
        for _ in 0..8 {
            sum.add(latency, &mut chance);
            sum.add(burn, &mut chance);
        }
        assert_eq!((sum.wait, sum.burn), (MAX_LATENCY, MAX_BURN));
    }
}
