//! Chooses an endpoint: the fewest requests in flight relative to the endpoint's speed.
//!
//! A picker belongs to one lane and knows only that lane's requests. Most of the time, none is in
//! flight, so ties are the rule. They are broken in proportion to the endpoints' weights (smooth
//! weighted round robin, as in nginx). Without clocks and sockets, so that tests can simulate it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Responses with an error in a row after which an endpoint is ejected. Broken connections count
/// [`BROKEN`] times, and connections that cannot be made at once.
const TOLERATED: u32 = 5;
const BROKEN: u32 = 2;

/// Duration of an endpoint's first ejection. It doubles with each ejection in a row.
const EJECTION: Duration = Duration::from_secs(1);
const LONGEST_EJECTION: u32 = 5;

/// Time in which a new or returning endpoint's weight grows from [`FIRST_WEIGHT`] to 1.
const SLOW_START: Duration = Duration::from_secs(10);
const FIRST_WEIGHT: f64 = 0.1;

/// Age at which a load report no longer counts.
const REPORT_AGE: Duration = Duration::from_secs(5);

/// Bounds of a weight relative to the mean. A wrong report thus starves no endpoint.
const WEIGHTS: (f64, f64) = (0.25, 4.0);

/// How an endpoint handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    Well,
    /// The response was an error, or did not arrive in time.
    Badly,
    /// The connection broke.
    Broken,
    /// No connection could be made.
    Unreachable,
    /// The endpoint rejects requests until then, which says nothing about its health.
    Busy {
        until: Instant,
    },
    /// The caller lost interest.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Warm,
    Warming { since: Instant },
    Ejected { until: Instant },
}

#[derive(Debug)]
struct Endpoint<T> {
    address: SocketAddr,
    way: T,
    in_flight: u32,
    state: State,
    failures: u32,
    /// Ejections since the endpoint was last warm.
    ejections: u32,
    /// Requests per second and used CPU, as the endpoint reported.
    speed: Option<(f64, Instant)>,
    busy_until: Option<Instant>,
    /// Position in the round robin of ties.
    credit: f64,
}

impl<T> Endpoint<T> {
    fn new(address: SocketAddr, way: T, state: State) -> Self {
        Endpoint {
            address,
            way,
            in_flight: 0,
            state,
            failures: 0,
            ejections: 0,
            speed: None,
            busy_until: None,
            credit: 0.0,
        }
    }

    fn is_ejected(&self) -> bool {
        matches!(self.state, State::Ejected { .. })
    }

    /// Ends an ejection or a slow start whose time has passed.
    fn advance(&mut self, now: Instant) {
        match self.state {
            State::Ejected { until } if now >= until => {
                (self.state, self.failures) = (State::Warming { since: now }, 0);
            }
            State::Warming { since } if now >= since + SLOW_START => {
                (self.state, self.ejections) = (State::Warm, 0);
            }
            _ => {}
        }
    }

    fn fresh_speed(&self, now: Instant) -> Option<f64> {
        self.speed.filter(|(_, at)| now < *at + REPORT_AGE).map(|(speed, _)| speed)
    }

    fn weight(&self, now: Instant, mean: Option<f64>) -> f64 {
        let speed = self.fresh_speed(now).zip(mean).map_or(1.0, |(speed, mean)| speed / mean);
        let speed = speed.clamp(WEIGHTS.0, WEIGHTS.1);
        match self.state {
            State::Warming { since } => {
                let grown = now.saturating_duration_since(since).div_duration_f64(SLOW_START);
                speed * grown.clamp(FIRST_WEIGHT, 1.0)
            }
            _ => speed,
        }
    }
}

/// `T` is what leads to an endpoint, such as its connections.
#[derive(Debug)]
pub(crate) struct Picker<T> {
    endpoints: Vec<Endpoint<T>>,
}

impl<T: Clone> Picker<T> {
    pub(crate) fn new() -> Self {
        Picker { endpoints: Vec::new() }
    }

    /// Replaces the set of endpoints. The first set starts warm, later ones start slowly.
    pub(crate) fn replace(
        &mut self,
        all: &[SocketAddr],
        now: Instant,
        way: impl Fn(SocketAddr) -> T,
    ) {
        let state = match self.endpoints.is_empty() {
            true => State::Warm,
            false => State::Warming { since: now },
        };
        self.endpoints.retain(|endpoint| all.contains(&endpoint.address));
        for &address in all {
            if self.find(address).is_none() {
                self.endpoints.push(Endpoint::new(address, way(address), state));
            }
        }
    }

    fn find(&mut self, address: SocketAddr) -> Option<&mut Endpoint<T>> {
        self.endpoints.iter_mut().find(|endpoint| endpoint.address == address)
    }

    pub(crate) fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub(crate) fn ejected(&self) -> usize {
        self.endpoints.iter().filter(|endpoint| endpoint.is_ejected()).count()
    }

    /// Starts the round robin at another endpoint, so that lanes do not choose the same ones.
    pub(crate) fn rotate(&mut self, by: usize) {
        let len = self.endpoints.len().max(1);
        self.endpoints.rotate_left(by % len);
    }

    /// Chooses an endpoint that is not in `tried` for a request, which [`Picker::end`] must end.
    /// Without such an endpoint, one that was tried if it may be `again`. If all are ejected, the
    /// one that returns first.
    pub(crate) fn pick(
        &mut self,
        now: Instant,
        tried: &[SocketAddr],
        again: bool,
    ) -> Option<(SocketAddr, T)> {
        self.endpoints.iter_mut().for_each(|endpoint| endpoint.advance(now));
        let is_retry = !tried.is_empty();
        let untried = |endpoint: &Endpoint<T>| {
            let is_busy = is_retry && endpoint.busy_until.is_some_and(|until| now < until);
            !is_busy && !tried.contains(&endpoint.address)
        };
        let best = self.least(now, untried);
        let best = best.or_else(|| self.first_to_return(untried));
        let best = best.or_else(|| if again { self.least(now, |_| true) } else { None });
        let best = best.or_else(|| if again { self.first_to_return(|_| true) } else { None });
        let chosen = &mut self.endpoints[best?];
        chosen.in_flight += 1;
        Some((chosen.address, chosen.way.clone()))
    }

    fn first_to_return(&self, fits: impl Fn(&Endpoint<T>) -> bool) -> Option<usize> {
        let returns = |(at, endpoint): (usize, &Endpoint<T>)| match endpoint.state {
            State::Ejected { until } if fits(endpoint) => Some((until, at)),
            _ => None,
        };
        self.endpoints.iter().enumerate().filter_map(returns).min().map(|(_, at)| at)
    }

    fn least(&mut self, now: Instant, fits: impl Fn(&Endpoint<T>) -> bool) -> Option<usize> {
        let speeds = self.endpoints.iter().filter_map(|endpoint| endpoint.fresh_speed(now));
        let (sum, number) = speeds.fold((0.0, 0), |(sum, number), speed| (sum + speed, number + 1));
        let mean = (number > 0).then(|| sum / f64::from(number));
        let load =
            |endpoint: &Endpoint<T>| f64::from(endpoint.in_flight) / endpoint.weight(now, mean);
        let eligible = |endpoint: &Endpoint<T>| !endpoint.is_ejected() && fits(endpoint);
        let loads = self.endpoints.iter().filter(|endpoint| eligible(endpoint)).map(load);
        let least = loads.min_by(f64::total_cmp)?;
        let (mut total, mut best) = (0.0, None::<usize>);
        for at in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[at];
            if !eligible(endpoint) || load(endpoint) > least {
                continue;
            }
            let weight = endpoint.weight(now, mean);
            self.endpoints[at].credit += weight;
            total += weight;
            if best.is_none_or(|best| self.endpoints[at].credit > self.endpoints[best].credit) {
                best = Some(at);
            }
        }
        self.endpoints[best?].credit -= total;
        best
    }

    /// Ends a request that [`Picker::pick`] began.
    pub(crate) fn end(&mut self, address: SocketAddr) {
        if let Some(endpoint) = self.find(address) {
            // An endpoint that left and came back does not know its earlier requests.
            endpoint.in_flight = endpoint.in_flight.saturating_sub(1);
        }
    }

    /// Learns how a request went.
    pub(crate) fn learn(&mut self, address: SocketAddr, handled: Handled, now: Instant) {
        let mostly_ejected = 2 * (self.ejected() + 1) > self.len();
        let Some(endpoint) = self.find(address) else { return };
        let failures = match handled {
            Handled::Well => {
                (endpoint.failures, endpoint.busy_until) = (0, None);
                return;
            }
            Handled::Unknown => return,
            Handled::Busy { until } => {
                endpoint.busy_until = Some(until);
                return;
            }
            Handled::Badly => 1,
            Handled::Broken => BROKEN,
            Handled::Unreachable => TOLERATED,
        };
        endpoint.failures += failures;
        // If most endpoints respond with errors, ejecting them would only overload the rest.
        let is_allowed = handled != Handled::Badly || !mostly_ejected;
        if endpoint.failures >= TOLERATED && is_allowed {
            let until = now + EJECTION * (1 << endpoint.ejections.min(LONGEST_EJECTION));
            endpoint.state = State::Ejected { until };
            endpoint.ejections += 1;
        }
    }

    /// Records the endpoint's load report.
    pub(crate) fn report(&mut self, address: SocketAddr, speed: f64, now: Instant) {
        if let Some(endpoint) = self.find(address) {
            endpoint.speed = Some((speed, now));
        }
    }
}

/// Used CPU below which a report says nothing about speed.
const LEAST_UTILIZATION: f64 = 0.05;

/// Requests per second that a fully used endpoint would handle, from a load report in one of its
/// two formats (ORCA, `endpoint-load-metrics`). `None` if the report does not tell.
pub(crate) fn speed(report: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(report).ok()?;
    let (form, rest) = text.split_once(' ')?;
    let value = |name: &str| -> Option<f64> {
        let at = match form {
            "TEXT" => {
                rest.split(',').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
            }
            "JSON" => rest.split([',', '{', '}']).find_map(|pair| {
                pair.trim().strip_prefix('"')?.strip_prefix(name)?.strip_prefix("\":")
            }),
            _ => None,
        };
        at?.trim().parse().ok()
    };
    let used = value("application_utilization").or_else(|| value("cpu_utilization"))?;
    let speed = value("rps_fractional")? / used;
    (used >= LEAST_UTILIZATION && speed.is_finite() && speed > 0.0).then_some(speed)
}

#[cfg(test)]
mod tests;
