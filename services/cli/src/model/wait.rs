//! Queueing formulas, named after their authors. Times are in seconds and rates per second.

use super::Time;

/// Mean wait λ E\[S²\] / 2(1 − ρ) for one server with Poisson arrivals and service in order of
/// arrival. Infinite for a load of 1 or more.
///
/// F. Pollaczek, "Über eine Aufgabe der Wahrscheinlichkeitstheorie", Mathematische Zeitschrift 32,
/// 1930; A. Khinchin, "The mathematical theory of a stationary queue", 1932.
///
/// ```
/// use corelane_cli::model::wait::pollaczek_khinchine;
///
/// // Fixed times of 1 ms at 90% wait 4.5 ms, half of what exponential ones wait.
/// assert!((pollaczek_khinchine(900.0, 1e-3, 1e-6) - 4.5e-3).abs() < 1e-12);
/// assert!((pollaczek_khinchine(900.0, 1e-3, 2e-6) - 9.0e-3).abs() < 1e-12);
/// ```
pub fn pollaczek_khinchine(rate: f64, mean: f64, second_moment: f64) -> f64 {
    let idle = 1.0 - rate * mean;
    if idle > 0.0 { rate * second_moment / (2.0 * idle) } else { f64::INFINITY }
}

/// Mean wait added by waking up: (2D + λ D²) / 2(1 + λ D) for a fixed time D. The first request of
/// each busy period wakes up the server.
///
/// P. D. Welch, "On a generalized M/G/1 queuing process in which the first customer of each busy
/// period receives exceptional service", Operations Research 12, 1964.
pub fn wake_up(rate: f64, wake: f64) -> f64 {
    (2.0 * wake + rate * wake * wake) / (2.0 * (1.0 + rate * wake))
}

/// Share of requests lost if k servers receive an offered load (rate times mean service time) and
/// no request may wait.
///
/// A. K. Erlang, "Solution of some problems in the theory of probabilities of significance in
/// automatic telephone exchanges", 1917; by recursion over the servers.
pub fn erlang_b(servers: usize, load: f64) -> f64 {
    let mut blocked = 1.0;
    for n in 1..=servers {
        blocked = load * blocked / (n as f64 + load * blocked);
        if blocked == 0.0 {
            break; // more servers change nothing
        }
    }
    blocked
}

/// Share of requests that wait if k servers receive an offered load and all requests may wait; 1
/// for a load of k or more.
///
/// Erlang, 1917.
///
/// ```
/// use corelane_cli::model::wait::erlang_c;
///
/// assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-12);
/// assert!((erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
/// ```
pub fn erlang_c(servers: usize, load: f64) -> f64 {
    let free = 1.0 - load / servers as f64;
    if free <= 0.0 {
        return 1.0;
    }
    let blocked = erlang_b(servers, load);
    blocked / (1.0 - (1.0 - free) * (1.0 - blocked))
}

/// Mean wait for k servers with one queue: the wait for exponential times, multiplied by (1 + c²) /
/// 2. It is exact for one server and for exponential times.
///
/// A. M. Lee and P. A. Longton, "Queueing processes associated with airline passenger check-in",
/// Operational Research Quarterly 10, 1959.
pub fn lee_longton(rate: f64, servers: usize, time: Time) -> f64 {
    let load = rate * time.mean();
    let free = servers as f64 - load;
    if free <= 0.0 {
        return f64::INFINITY;
    }
    (1.0 + time.scv()) / 2.0 * erlang_c(servers, load) * time.mean() / free
}

/// Mean waits with two priorities: W(1 − ρ) / (1 − σ) for requests that go first, and W / (1 − σ)
/// for the rest. W is the mean wait in order of arrival, and σ is the part of the load ρ that goes
/// first. Requests are not interrupted. Both waits are infinite for a load of 1 or more.
///
/// A. Cobham, "Priority assignment in waiting line problems", Operations Research 2, 1954.
pub fn cobham(wait: f64, busy: f64, busy_first: f64) -> (f64, f64) {
    if busy >= 1.0 {
        return (f64::INFINITY, f64::INFINITY);
    }
    let after_first = 1.0 - busy_first;
    (wait * (1.0 - busy) / after_first, wait / after_first)
}

/// Time from start to end of a request that other requests interrupt: S / (1 − σ), where σ is the
/// load of the interrupting requests. `None` for a load of 1 or more, where the time is infinite.
///
/// Its variance is Var\[S\] / (1 − σ)² + λ E\[S₁²\] E\[S\] / (1 − σ)³. H. White and L. S. Christie,
/// "Queuing with preemptive priorities or with breakdown", Operations Research 6, 1958; L.
/// Kleinrock, *Queueing Systems*, volume 2, 1976, section 3.4.
///
/// ```
/// use corelane_cli::model::{Time, wait::interrupted};
///
/// let first = Time::fixed(1e-3).unwrap();
/// let time = interrupted(Time::fixed(7e-3).unwrap(), 500.0, first).unwrap();
/// assert!((time.mean() - 14e-3).abs() < 1e-12);
/// ```
pub fn interrupted(time: Time, rate: f64, first: Time) -> Option<Time> {
    let free = 1.0 - rate * first.mean();
    if free <= 0.0 {
        return None;
    }
    let others = rate * first.second_moment() * time.mean() / free.powi(3);
    Time::new(time.mean() / free, (time.deviation().powi(2) / free.powi(2) + others).sqrt()).ok()
}

/// Share of requests that find all places taken, for k servers, a bounded queue and exponential
/// times.
///
/// Tijms, *A First Course in Stochastic Models*, 2003, section 5.1 (M/M/c/c+N).
///
/// ```
/// use corelane_cli::model::wait::{erlang_b, shed_share};
///
/// assert!((shed_share(3, 0, 2.0) - erlang_b(3, 2.0)).abs() < 1e-12);
/// // One server at its knee: every place is as likely as any other.
/// assert!((shed_share(1, 8, 1.0) - 0.1).abs() < 1e-12);
/// ```
pub fn shed_share(servers: usize, places: usize, load: f64) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    // Each additional place changes the share to p' = r p / (1 + r p), where r is the load per
    // server. Therefore 1 / p grows by the geometric series 1 + 1/r + 1/r² + ..., whose closed form
    // handles millions of places.
    let (each, places) = ((load / servers as f64).ln(), places as f64);
    let series = if each == 0.0 { places } else { (-places * each).exp_m1() / (-each).exp_m1() };
    1.0 / (series + (-places * each).exp() / erlang_b(servers, load))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        // Erlang's table for 10 lines: with 5 erlang, 1.84% of calls are lost and 3.61% wait.
        assert!((erlang_b(10, 5.0) - 0.018_385).abs() < 1e-6);
        assert!((erlang_c(10, 5.0) - 0.036_105).abs() < 1e-6);
        assert!((erlang_b(1000, 1000.0) - 0.0248).abs() < 1e-3, "many servers do not overflow");
    }

    #[test]
    fn pooled_servers_of_one_are_one_server() {
        for deviation in [0.0, 1e-3, 3e-3] {
            let time = Time::new(1e-3, deviation).expect("a time");
            let alone = pollaczek_khinchine(800.0, 1e-3, time.second_moment());
            assert!((lee_longton(800.0, 1, time) - alone).abs() < 1e-12);
        }
        assert_eq!(lee_longton(2000.0, 2, Time::fixed(1e-3).expect("a time")), f64::INFINITY);
    }

    #[test]
    fn priority_keeps_the_work() {
        // Kleinrock's conservation law (1965): the load-weighted mean wait is constant.
        let (first, after) = cobham(0.01, 0.8, 0.3);
        assert!((0.3 * first + 0.5 * after - 0.8 * 0.01).abs() < 1e-12);
    }

    #[test]
    fn nobody_has_a_mean_wait_from_a_load_of_1() {
        for (busy, first) in [(1.0, 0.5), (1.2, 0.1), (1.0, 1.0), (2.0, 1.5)] {
            assert_eq!(cobham(f64::INFINITY, busy, first), (f64::INFINITY, f64::INFINITY));
        }
    }

    #[test]
    fn places_are_counted_as_one_by_one() {
        for (servers, places, load) in [(1, 8, 0.3), (3, 20, 2.9), (4, 6, 5.0), (2, 1, 2.0)] {
            let each = load / servers as f64;
            let more = |full: f64, _| each * full / (1.0 + each * full);
            let counted = (0..places).fold(erlang_b(servers, load), more);
            assert!((shed_share(servers, places, load) / counted - 1.0).abs() < 1e-9);
        }
        assert_eq!(shed_share(1, 8, 0.0), 0.0);
        // The computation takes constant time, even for the maximum number of places.
        assert_eq!(shed_share(1024, 1 << 31, 900.0), 0.0);
        assert!((erlang_b(1 << 40, 10.0)).abs() < 1e-300);
    }

    #[test]
    fn an_endless_queue_sheds_nothing_below_the_knee_and_the_rest_above() {
        assert!(shed_share(1, 1000, 0.9) < 1e-40);
        assert!((shed_share(4, 10_000, 5.0) - 0.2).abs() < 1e-9);
    }
}
