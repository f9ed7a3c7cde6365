//! A mix on a replica: its knee, and estimates for a given load.

use super::simulation::{Simulated, Simulation};
use super::wait::{cobham, erlang_c, interrupted, lee_longton, shed_share, wake_up};
use super::{CapacityError, Kind, Mix, Replica, Time};
use corelane::BRIEF;

/// Minimum mean request time in seconds, because rates overflow below this time.
const SHORTEST: f64 = 1e-9;

/// The resource that limits a replica's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All lanes are always busy.
    Lanes,
    /// Waiting handlers occupy all slots.
    Slots,
}

/// The maximum load of a replica, regardless of waiting times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Requests per second.
    pub rate: f64,
    /// The limiting resource.
    pub bound: Bound,
}

/// Estimates for a load, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Utilisation of a lane, or of its slots if slots are the limit.
    pub utilization: f64,
    /// Mean wait of all requests for the lane and for a slot.
    pub wait: f64,
    /// Mean wait for each kind of the mix.
    pub waits: Vec<f64>,
    /// Share of requests shed because all slots and the queue are full.
    pub shed: f64,
    besides: f64,
    waiting: Vec<f64>,
    kinds: Vec<Kind>,
    outside: f64,
}

/// A mix of requests and the replica that serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    mix: Mix,
    replica: Replica,
}

impl Model {
    /// Creates a model. The replica's settings must be in bounds, and the mean request must take at
    /// least a nanosecond.
    pub fn new(mix: Mix, replica: Replica) -> Result<Model, CapacityError> {
        replica.check()?;
        if mix.mean(|kind| kind.service().mean()) + replica.outside < SHORTEST {
            return Err(CapacityError::NoTime);
        }
        Ok(Model { mix, replica })
    }

    /// The mix.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// The replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Lane time of a request, including its time outside the handler.
    pub fn lane_time(&self) -> Time {
        self.mixed(|kind| self.of_lane(kind))
    }

    /// Time during which a request holds its slot, excluding waits for its lane.
    pub fn slot_time(&self) -> Time {
        self.mixed(Kind::service)
    }

    fn of_lane(&self, kind: &Kind) -> Time {
        kind.lane.plus(Time::fixed(self.replica.outside).unwrap_or_default())
    }

    /// Uninterrupted part of the lane time.
    fn on_lane(&self, kind: &Kind) -> Time {
        let lane = if kind.slow { Time::ZERO } else { kind.lane };
        self.of_lane(&Kind { lane, ..kind.clone() })
    }

    fn mixed(&self, of: impl Fn(&Kind) -> Time) -> Time {
        let mean = self.mix.mean(|kind| of(kind).mean());
        let second = self.mix.mean(|kind| of(kind).second_moment());
        Time::from_sums(1, mean, second).unwrap_or_default()
    }

    /// The knee: k / E\[lane time\], or k c / E\[service time\] if that is smaller, for k lanes
    /// with c slots. Among uneven lanes, the busiest one saturates first.
    pub fn knee(&self) -> Knee {
        let queues = self.replica.servers() as f64 / self.replica.busiest();
        let lanes = queues / self.lane_time().mean();
        let slots = queues * self.replica.slots as f64 / self.slot_time().mean();
        if slots < lanes {
            Knee { rate: slots, bound: Bound::Slots }
        } else {
            Knee { rate: lanes, bound: Bound::Lanes }
        }
    }

    /// Estimates for a load of at least 0 requests per second.
    ///
    /// Waits for the lane follow Pollaczek and Khinchine, or Lee and Longton if lanes share their
    /// work. Welch's formula adds the wake-up, and Cobham's puts cheap kinds first. Kinds on the
    /// slow lane wait for all other kinds, which interrupt them (White and Christie). If slots are
    /// the limit, waits for a slot follow Lee and Longton.
    pub fn estimate(&self, rate: f64) -> Estimated {
        let rate = rate * self.replica.busiest();
        let servers = self.replica.servers();
        let lane = self.lane_time();
        let lane_busy = rate * lane.mean() / servers as f64;
        let express = |kind: &Kind| self.on_lane(kind);
        let first_time = self.mixed(express);
        let first_busy = rate * first_time.mean() / servers as f64;
        let is_brief = |kind: &Kind| kind.slow || kind.lane.mean() < BRIEF as f64 / 1e9;
        let brief = |kind: &Kind| if is_brief(kind) { express(kind).mean() } else { 0.0 };
        let brief_busy = rate * self.mix.mean(brief) / servers as f64;
        // The slow lane has to wait for both priorities, but the lane does not wait for its slow
        // lane.
        let for_lane = lee_longton(rate, servers, first_time);
        let (first, after) = cobham(for_lane, first_busy, brief_busy);
        let (_, slow) = cobham(lee_longton(rate, servers, lane), lane_busy, first_busy);
        let slot = self.slot_time();
        let slots = servers * self.replica.slots;
        let for_slot = lee_longton(rate, slots, slot);
        let slot_busy = rate * slot.mean() / slots as f64;
        // A request waiting for a slot also waits for the lane, so the longer wait determines the
        // queue.
        let wait = |kind: &Kind| {
            let queue = match kind.slow {
                true => slow,
                false if is_brief(kind) => first,
                false => after,
            };
            queue.max(for_slot)
        };
        // Interruptions lengthen a handler on the slow lane.
        let stretched = |kind: &Kind| {
            let time = interrupted(kind.lane, rate / servers as f64, first_time);
            let lane = if kind.slow { time.unwrap_or(kind.lane) } else { kind.lane };
            Kind { lane, ..kind.clone() }
        };
        let (taken, load) = if slot_busy > lane_busy {
            (slots, rate * slot.mean())
        } else {
            (servers, rate * lane.mean())
        };
        let waiting = |kind: &Kind| match kind.slow || first_busy == lane_busy {
            true => erlang_c(taken, load),
            false => erlang_c(servers, rate * first_time.mean()),
        };
        let places = servers * (self.replica.slots + self.replica.queue);
        // Cheap requests wait in the lane's sockets and do not form a separate queue.
        let queues = slot_busy > lane_busy || !self.mix.kinds().iter().all(is_brief);
        let shed = || shed_share(taken, places - taken.min(places), load);
        Estimated {
            utilization: lane_busy.max(slot_busy),
            wait: self.mix.mean(wait),
            waits: self.mix.kinds().iter().map(wait).collect(),
            shed: if queues { shed() } else { 0.0 },
            besides: wake_up(rate / servers as f64, self.replica.wake) + self.replica.network,
            waiting: self.mix.kinds().iter().map(waiting).collect(),
            kinds: self.mix.kinds().iter().map(stretched).collect(),
            outside: self.replica.outside,
        }
    }

    /// Simulates a load in requests per second.
    pub fn simulate(&self, simulation: &Simulation, rate: f64) -> Simulated {
        simulation.run(&self.mix, &self.replica, rate)
    }
}

const STEPS: u32 = 256;

impl Estimated {
    /// Mean time from a request's arrival to the end of its response, for one kind (by index in the
    /// mix) or for all kinds.
    pub fn mean(&self, kind: Option<usize>) -> f64 {
        let of = |kind: usize| {
            let Kind { lane, wait, .. } = self.kinds[kind];
            self.waits[kind] + lane.mean() + wait.mean() + self.outside + self.besides
        };
        match kind {
            Some(kind) => of(kind),
            None => (0..self.kinds.len()).map(|kind| self.kinds[kind].share * of(kind)).sum(),
        }
    }

    /// Time within which this share of requests is answered, for one kind or for all kinds;
    /// infinite for a share of 1 or more.
    ///
    /// The wait has an exponential tail with its own mean (Tijms, *A First Course in Stochastic
    /// Models*, 2003, section 9.2.2); the service time is gamma distributed. Exact for M/M/1.
    pub fn quantile(&self, kind: Option<usize>, share: f64) -> f64 {
        let tail = |t: f64| match kind {
            Some(kind) => self.tail(kind, t),
            None => {
                let each = self.kinds.iter().enumerate();
                each.map(|(place, kind)| kind.share * self.tail(place, t)).sum()
            }
        };
        if !self.wait.is_finite() || share >= 1.0 {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (0.0, self.mean(kind));
        if high <= 0.0 {
            return 0.0; // needs no time and no wait
        }
        while tail(high) > 1.0 - share {
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            *(if tail(middle) > 1.0 - share { &mut low } else { &mut high }) = middle;
        }
        high
    }

    fn tail(&self, kind: usize, t: f64) -> f64 {
        let service = self.kinds[kind].service();
        let t = t - self.outside - self.besides;
        if t <= 0.0 {
            return 1.0;
        }
        let waiting = self.waiting[kind];
        let mean = (self.waits[kind] / waiting.max(f64::MIN_POSITIVE)).max(f64::MIN_POSITIVE);
        let beyond = |t: f64| (-t / mean).exp();
        let upto = if service.is_fixed() {
            if t > service.mean() {
                beyond(t - service.mean()) - beyond(t)
            } else {
                1.0 - beyond(t)
            }
        } else {
            let step = t / f64::from(STEPS);
            let at = |n: u32| (f64::from(n) + 0.5) * step;
            let weight = |n: u32| beyond(at(n) - 0.5 * step) - beyond(at(n) + 0.5 * step);
            (0..STEPS).map(|n| weight(n) * service.tail(t - at(n))).sum()
        };
        (1.0 - waiting) * service.tail(t) + waiting * (beyond(t) + upto)
    }
}

/// Requests that a server with queues accepts in `duration`: queue size × duration × concurrency ÷
/// median handler time.
///
/// J. Pauley, "A High Concurrency HTTP Server Architecture", 2019, section 3.2: the simplest form
/// of the knee. For one second and a queue of 1, it is the rate at which slots become free, if the
/// median equals the mean.
pub fn pauley(queue: f64, duration: f64, concurrency: f64, median: f64) -> f64 {
    queue * duration * concurrency / median
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Waiting;

    fn model(mix: &str, replica: Replica) -> Model {
        Model::new(mix.parse().expect("a mix"), replica).expect("a model")
    }

    fn close(seen: f64, wanted: f64, within: f64) {
        assert!((seen / wanted - 1.0).abs() < within, "{seen}, not {wanted}");
    }

    const BARE: Replica = Replica {
        lanes: 1,
        slots: 1024,
        queue: 1024,
        sharing: super::super::Sharing::Apart,
        unevenness: 1.0,
        outside: 0.0,
        wake: 0.0,
        slow_share: 0.15,
        network: 0.0,
    };

    const SIMULATION: Simulation = Simulation { requests: 60_000, seed: 1 };

    #[test]
    fn the_knee_is_what_lanes_or_slots_can_do() {
        let knee = model("a=90%,b=10%:7ms", Replica { lanes: 2, outside: 1e-4, ..BARE }).knee();
        close(knee.rate, 2.0 / 0.8e-3, 1e-9);
        assert_eq!(knee.bound, Bound::Lanes);
        let knee = model("a=100%:1ms+9ms", Replica { slots: 4, ..BARE }).knee();
        close(knee.rate, 400.0, 1e-9);
        assert_eq!(knee.bound, Bound::Slots);
        close(pauley(1.0, 1.0, 4.0, 10e-3), 400.0, 1e-9);
        let uneven = Replica { lanes: 4, unevenness: 1.5, ..BARE };
        close(model("a=100%:1ms", uneven).knee().rate, 4000.0 / 1.5, 1e-9);
    }

    #[test]
    fn formulas_are_exact_where_they_are_said_to_be() {
        let estimated = model("a=100%:1ms:1ms", BARE).estimate(800.0);
        close(estimated.mean(None), 5e-3, 1e-9);
        for share in [0.5, 0.9, 0.99, 0.999] {
            close(estimated.quantile(None, share), -5e-3 * f64::ln(1.0 - share), 0.01);
        }
        assert_eq!(model("a=100%:1ms", BARE).estimate(1000.0).quantile(None, 0.5), f64::INFINITY);
    }

    #[test]
    fn formula_grid_and_simulation_agree_on_one_lane() {
        let simulation = Simulation { requests: 100_000, seed: 11 };
        for text in ["a=100%:1ms", "a=100%:1ms:500us", "a=100%:1ms:2ms"] {
            let model = model(text, BARE);
            let time = model.lane_time();
            let waiting = Waiting::new(700.0, &[(1.0, time)]).expect("below the knee");
            let simulated = model.simulate(&simulation, 700.0).quantile(None, 0.99);
            close(waiting.response_tail(simulated, time), 0.01, 0.15);
            close(model.estimate(700.0).quantile(None, 0.99), simulated, 0.15);
        }
    }

    #[test]
    fn brief_ones_wait_for_one_dear_one() {
        let model = model("GET /hello=90%,GET /work=10%:7ms", Replica { outside: 1e-5, ..BARE });
        let rate = 0.7 * model.knee().rate;
        let simulated = model.simulate(&SIMULATION, rate);
        let estimated = model.estimate(rate);
        close(simulated.quantile(Some(0), 0.99), 7e-3, 0.05);
        for kind in [0, 1] {
            close(estimated.mean(Some(kind)), simulated.mean(Some(kind)), 0.1);
        }
        close(estimated.quantile(Some(1), 0.99), simulated.quantile(Some(1), 0.99), 0.2);
    }

    #[test]
    fn brief_ones_do_not_wait_for_the_slow_lane() {
        let simulation = Simulation { requests: 60_000, seed: 2 };
        let replica = Replica { outside: 1e-5, slow_share: 0.0, ..BARE };
        for text in ["a=90%,b=10%:7ms@slow", "a=90%:200us:200us,b=10%:7ms:7ms@slow"] {
            let model = model(text, replica);
            let rate = 0.7 * model.knee().rate;
            let simulated = model.simulate(&simulation, rate);
            let estimated = model.estimate(rate);
            for kind in [0, 1] {
                close(estimated.mean(Some(kind)), simulated.mean(Some(kind)), 0.1);
                let p99 = simulated.quantile(Some(kind), 0.99);
                close(estimated.quantile(Some(kind), 0.99), p99, 0.2);
            }
            close(simulated.busy, 0.7, 0.03);
        }
        let held = model("a=90%,b=10%:7ms", replica);
        let free = model("a=90%,b=10%:7ms@slow", replica);
        let p99 = |model: &Model| model.simulate(&simulation, 900.0).quantile(Some(0), 0.99);
        assert!(p99(&free) < 0.01 * p99(&held), "{} {}", p99(&free), p99(&held));
    }

    #[test]
    fn a_lane_that_is_always_busy_leaves_its_slow_lane_a_share() {
        // Cheap requests alone exceed what the lane can serve by 50%.
        let replica = Replica { queue: 1 << 20, ..BARE };
        let model = model("a=99.9%:100us,b=0.1%:2ms@slow", replica);
        let rate = 15_000.0;
        let seconds = SIMULATION.requests as f64 / rate;
        let seen = model.simulate(&SIMULATION, rate);
        // The slow requests need 3% of the CPU, less than their share.
        assert!(seen.quantile(Some(1), 0.99) < 0.1 * seconds, "{}", seen.quantile(Some(1), 0.99));
        let starved = Model::new(model.mix().clone(), Replica { slow_share: 0.0, ..replica });
        let starved = starved.expect("a model").simulate(&SIMULATION, rate);
        assert!(starved.quantile(Some(1), 0.5) > 0.4 * seconds);
    }

    #[test]
    fn what_takes_no_time_is_answered_at_once() {
        let model = model("a=50%+5ms,b=50%", BARE);
        let estimated = model.estimate(0.01 * model.knee().rate);
        assert!(estimated.quantile(Some(1), 0.99) < 1e-9, "{estimated:?}");
        assert_eq!(estimated.quantile(None, 1.0), f64::INFINITY);
        assert_eq!(model.estimate(0.0).quantile(Some(1), 0.5), 0.0);
        let nothing = "a=100%".parse().expect("a mix");
        assert_eq!(Model::new(nothing, BARE), Err(CapacityError::NoTime));
    }

    #[test]
    fn above_the_knee_all_kinds_wait_without_end() {
        let estimated = model("a=90%:5us,b=10%:7ms", BARE).estimate(2000.0);
        assert_eq!(estimated.waits, [f64::INFINITY; 2]);
        assert_eq!(estimated.mean(Some(0)), f64::INFINITY);
    }

    #[test]
    fn handlers_that_wait_queue_for_slots() {
        let model = model("a=100%+5ms:5ms", Replica { slots: 2, ..BARE });
        let estimated = model.estimate(300.0);
        let simulated = model.simulate(&SIMULATION, 300.0);
        assert_eq!(model.knee().bound, Bound::Slots);
        close(estimated.mean(None), simulated.mean(None), 0.05);
        close(estimated.quantile(None, 0.99), simulated.quantile(None, 0.99), 0.1);
    }
}
