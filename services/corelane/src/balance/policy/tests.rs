//! Tests the policy in virtual time, with tables and with simulated lanes.

use super::*;
use crate::base::random::Random;

/// A connection that needs the share `wants` of a lane's time, with requests that take `cost`
/// seconds.
#[derive(Clone, Copy, Debug)]
struct SimulatedClient {
    lane: usize,
    wants: f64,
    cost: f64,
}

struct World {
    policy: Policy,
    now: Instant,
    samples: Vec<Sample>,
    clients: Vec<SimulatedClient>,
    told: Vec<Option<Step>>,
    random: Random,
    noise: f64,
    moved: u32,
    observed: u32,
    /// For each plan that moved something: its start, and the number of connections.
    plans: Vec<(Instant, u32)>,
    last_move: Option<Instant>,
    outcomes: Vec<PlanOutcome>,
}

impl World {
    fn new(lanes: usize, clients: Vec<SimulatedClient>) -> Self {
        World {
            policy: Policy::new(lanes),
            now: Instant::now(),
            samples: vec![Sample::default(); lanes],
            clients,
            told: vec![None; lanes],
            random: Random::seeded(1),
            noise: 0.0,
            moved: 0,
            observed: 0,
            plans: Vec::new(),
            last_move: None,
            outcomes: Vec::new(),
        }
    }

    fn wanted(&self, lane: usize) -> f64 {
        self.clients.iter().filter(|client| client.lane == lane).map(|client| client.wants).sum()
    }

    fn count(&self, lane: usize) -> usize {
        self.clients.iter().filter(|client| client.lane == lane).count()
    }

    /// Share of the lane's time that each connection gets. If all demands fit, each connection gets
    /// its demand. Otherwise, connections take turns, and their shares are proportional to the work
    /// per turn.
    fn shares(&self, lane: usize) -> Vec<f64> {
        let of_lane = self.clients.iter().filter(|client| client.lane == lane);
        let turns: f64 = of_lane.map(|client| client.wants * client.cost).sum();
        let full = self.wanted(lane) > 1.0;
        let share = |client: &SimulatedClient| match client {
            client if client.lane != lane => 0.0,
            client if full => client.wants * client.cost / turns,
            client => client.wants,
        };
        self.clients.iter().map(share).collect()
    }

    /// Runs a lane for `passed` seconds and moves connections that may leave.
    fn work(&mut self, lane: usize, passed: f64) {
        let luck = 1.0 + self.noise * (2.0 * self.random.chance() - 1.0);
        let busy = (self.wanted(lane) * luck).min(1.0);
        let shares = self.shares(lane);
        let rates = shares.iter().zip(&self.clients).map(|(share, client)| share / client.cost);
        let (rate, active) = (rates.sum::<f64>(), self.count(lane) as u64);
        let sample = &mut self.samples[lane];
        sample.busy += Duration::from_secs_f64(busy * passed);
        sample.requests += (rate * passed).round() as u64;
        sample.active = active;
        if let Some(Step::Transfer(mut transfer)) = self.told[lane] {
            for (index, share) in shares.into_iter().enumerate() {
                let saturated = transfer.why == Moved::Saturated;
                let takes = if saturated { self.clients[index].cost } else { share };
                if self.clients[index].lane == lane && transfer.take(takes) {
                    self.go(index, transfer.to, takes);
                }
            }
            self.told[lane] = Some(Step::Transfer(transfer));
        }
    }

    fn go(&mut self, index: usize, to: usize, takes: f64) {
        let from = self.clients[index].lane;
        self.clients[index].lane = to;
        let given = &mut self.samples[from].given;
        (given.connections, given.taken) = (given.connections + 1, given.taken + takes);
        if given.connections == 1 {
            self.plans.push((self.now, 0));
        }
        self.plans.last_mut().expect("a plan").1 += 1;
        self.moved += 1;
        self.last_move = Some(self.now);
    }

    fn run(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            let pause = self.policy.pause();
            self.now += pause;
            for lane in 0..self.samples.len() {
                self.work(lane, pause.as_secs_f64());
            }
            if let Some((lane, step)) = self.policy.tick(self.now, &self.samples) {
                if step == Step::Observe {
                    self.observed += 1;
                    self.samples[lane].given = Spent::default();
                }
                self.told[lane] = Some(step);
            }
            self.outcomes.extend(self.policy.take_outcome());
        }
    }
}

fn clients(count: usize, lane: usize, wants: f64, cost: f64) -> Vec<SimulatedClient> {
    vec![SimulatedClient { lane, wants, cost }; count]
}

const COST: f64 = 200e-6;

#[test]
fn connections_of_a_hot_lane_spread_within_a_second() {
    // connections, demand per connection, lanes
    for (count, wants, lanes) in [(8, 0.8, 2), (2, 0.9, 2), (8, 0.12, 2), (12, 0.2, 3)] {
        let mut world = World::new(lanes, clients(count, 0, wants, COST));
        world.run(1);
        let spread: Vec<_> = (0..lanes).map(|lane| world.wanted(lane)).collect();
        let (most, least) = spread.iter().fold((0.0f64, f64::MAX), |(most, least), &wanted| {
            (most.max(wanted.min(1.0)), least.min(wanted.min(1.0)))
        });
        assert!(most - least <= DIFFERENCE, "{count} that want {wants}: {spread:?}");
    }
}

#[test]
fn even_lanes_are_left_alone() {
    for (count, wants) in [(1, 0.3), (4, 0.1), (4, 0.17), (8, 0.1), (32, 0.8)] {
        for noise in [0.0, 0.2] {
            let both = [clients(count, 0, wants, COST), clients(count, 1, wants, COST)].concat();
            let mut world = World::new(2, both);
            world.noise = noise;
            world.run(20);
            assert_eq!((world.observed, world.moved), (0, 0), "{count} that want {wants}");
        }
    }
}

#[test]
fn one_hot_connection_stays_and_is_looked_at_ever_more_rarely() {
    for beside in [0, 4] {
        let mut all = clients(1, 0, 1.0, COST);
        all.extend(clients(beside, 1, 0.05, COST));
        let mut world = World::new(2, all);
        world.run(60);
        assert_eq!(world.moved, 0);
        // With only the cool-down between plans, 250 plans would fit into 60 s.
        assert!((1..=12).contains(&world.observed), "{} plans", world.observed);
        assert_eq!(world.outcomes, vec![PlanOutcome::Futile; world.observed as usize]);
    }
}

#[test]
fn what_goes_with_a_hot_connection_makes_room_for_it() {
    let all = [clients(1, 0, 0.7, COST), clients(4, 0, 0.07, COST)].concat();
    let mut world = World::new(2, all);
    world.run(5);
    assert_eq!(world.clients[0].lane, 0, "the hot one stays");
    assert!(world.count(0) < 5);
}

#[test]
fn saturated_lanes_even_out_their_rounds() {
    for (here, there) in [(64, 0), (60, 4), (44, 20)] {
        let both = [clients(here, 0, 0.8, COST), clients(there, 1, 0.8, COST)].concat();
        let mut world = World::new(2, both);
        world.noise = 0.1;
        world.run(10);
        let (most, least) = (world.count(0) as f64, world.count(1) as f64);
        assert!(most / least <= ROUNDS, "{here} and {there}: {most} and {least}");
    }
}

#[test]
fn rounds_count_what_requests_cost_and_not_connections() {
    // 4 connections send 10 ms requests and 60 connections send 200 us requests: a round takes 40
    // ms on one lane and 12 ms on the other.
    let both = [clients(4, 0, 0.9, 10e-3), clients(60, 1, 0.8, COST)].concat();
    let mut world = World::new(2, both);
    world.run(10);
    assert_eq!(world.count(0), 3, "one of the costly went");
    assert_eq!(world.moved, 1);
}

#[test]
fn any_steady_load_comes_to_rest() {
    for seed in 0..25 {
        let random = Random::seeded(seed);
        let below = |n: u64| random.next() % n;
        let lanes = 2 + below(3) as usize;
        let level = 0.02 + 0.5 * random.chance();
        let all = (0..1 + below(30)).map(|_| SimulatedClient {
            lane: below(1 + below(lanes as u64)) as usize,
            wants: level * (0.5 + random.chance()),
            cost: COST,
        });
        let mut world = World::new(lanes, all.collect());
        let hottest = |world: &World| (0..lanes).map(|lane| world.wanted(lane)).fold(0.0, f64::max);
        let before = hottest(&world);
        world.run(60);
        assert!(hottest(&world) <= before + 1e-9, "seed {seed}: a lane got hotter");
        assert!(world.plans.iter().all(|(_, count)| *count <= MOST), "seed {seed}");
        let pauses = world.plans.windows(2).map(|two| two[1].0 - two[0].0);
        assert!(pauses.min().is_none_or(|pause| pause >= COOL_DOWN), "seed {seed}: no cool-down");
        let rest = world.last_move.map_or(Duration::MAX, |last| world.now - last);
        assert!(
            rest > Duration::from_secs(30),
            "seed {seed}: moves continue, {} in all",
            world.moved
        );
    }
}

#[test]
fn lanes_are_uneven_by_difference_and_by_the_busiest() {
    // busy shares, whether the first lane is observed
    let cases = [
        ([0.55, 0.0], false),
        ([0.65, 0.0], true),
        ([0.65, 0.45], false),
        ([0.9, 0.6], true),
        ([0.95, 0.75], false),
        ([1.0, 0.8], false),
        ([1.0, 0.7], true),
    ];
    for (wants, uneven) in cases {
        let each = |lane: usize| SimulatedClient { lane, wants: wants[lane], cost: COST };
        let mut world = World::new(2, vec![each(0), each(1)]);
        world.run(2);
        assert_eq!(world.observed > 0, uneven, "{wants:?}");
    }
}

#[test]
fn a_plan_keeps_its_times() {
    let mut policy = Policy::new(2);
    let begun = Instant::now();
    let mut told = Vec::new();
    for tick in 0..200 {
        let at = TICK * tick;
        // The first lane is fully busy from the start.
        let samples = [Sample { busy: at, ..Sample::default() }, Sample::default()];
        if let Some((lane, step)) = policy.tick(begun + at, &samples) {
            assert_eq!(lane, 0);
            told.push((at.as_millis(), step));
        }
    }
    let times: Vec<_> = told.iter().map(|(at, _)| *at).collect();
    let [found, transfer, finish, again, ..] = times[..] else { panic!("{told:?}") };
    assert!(matches!(told[0].1, Step::Observe) && matches!(told[1].1, Step::Transfer(_)));
    assert_eq!(
        [transfer - found, finish - transfer],
        [OBSERVATION, TRANSFER_TIME].map(|time| time.as_millis())
    );
    assert_eq!(told[2].1, Step::Finish);
    // After a plan without moves, the policy waits for twice the cool-down and then until lanes are
    // uneven.
    let pause = 2 * COOL_DOWN + PATIENCE;
    assert!((again - finish).abs_diff(pause.as_millis()) <= 20, "{told:?}");
}

#[test]
fn a_lane_that_tells_late_is_as_busy_as_one_that_tells_at_once() {
    let mut policy = Policy::new(1);
    let begun = Instant::now();
    for tick in 0..100 {
        // 80% busy, reported every third tick.
        let busy = (TICK * (tick / 3 * 3)).mul_f64(0.8);
        policy.tick(begun + TICK * tick, &[Sample { busy, ..Sample::default() }]);
    }
    let busy = policy.lanes[0].busy;
    assert!((0.6..=1.0).contains(&busy), "{busy}");
}

#[test]
fn a_plan_takes_what_fits() {
    let mut transfer = Transfer::new(1, Moved::Busy, 0.4);
    assert!(!transfer.take(0.0), "took a connection without load");
    assert!(!transfer.take(0.51), "took slightly more than planned");
    assert!(transfer.take(0.3) && !transfer.take(0.11) && transfer.take(0.05));
    let mut transfer = Transfer::new(1, Moved::Busy, 0.4);
    assert!(transfer.take(0.5), "the first may be a little over");
    let mut transfer = Transfer::new(1, Moved::Busy, 0.4);
    assert_eq!((0..10).filter(|_| transfer.take(0.01)).count(), MOST as usize);
}

#[test]
fn failures_are_forgiven_in_calm_times() {
    let mut world = World::new(2, clients(1, 0, 1.0, COST));
    world.run(30);
    assert!(world.policy.failures >= 4);
    world.clients[0].wants = 0.1;
    world.run(60);
    assert_eq!(world.policy.failures, 0);
}

#[test]
fn a_lane_that_is_held_up_is_waited_for() {
    let mut policy = Policy::new(2);
    let begun = Instant::now();
    let mut told = Vec::new();
    for tick in 0..70 {
        let at = TICK * tick;
        // Steps reach the lane half a second late.
        let unresponsive =
            told.last().is_some_and(|(last, _)| at < *last + Duration::from_millis(500));
        let busy = Sample { busy: at, unresponsive, ..Sample::default() };
        if let Some((_, step)) = policy.tick(begun + at, &[busy, Sample::default()]) {
            told.push((at, step));
        }
    }
    let [(observe, Step::Observe), (transfer, Step::Transfer(_))] = told[..] else {
        panic!("{told:?}")
    };
    assert!((transfer - observe).abs_diff(Duration::from_millis(500) + OBSERVATION) <= TICK);
}

#[test]
fn slow_requests_are_given_their_time() {
    // Each of the 8 connections has a request every 160 ms.
    let mut world = World::new(2, clients(8, 0, 0.9, 20e-3));
    world.run(3);
    assert_eq!((world.count(0), world.count(1)), (4, 4));
    let gauge =
        Gauge { last: Sample { active: 8, ..Sample::default() }, rate: 50.0, ..Gauge::default() };
    let uneven = Uneven { from: 0, to: 1, why: Moved::Busy, by: 1.0 };
    let policy = Policy { lanes: vec![gauge], ..Policy::new(1) };
    assert_eq!(policy.patience(&uneven, OBSERVATION), Duration::from_millis(240));
    let none_ended = Gauge { rate: 0.0, ..gauge };
    let policy = Policy { lanes: vec![none_ended], ..Policy::new(1) };
    assert_eq!(policy.patience(&uneven, OBSERVATION), LONGEST);
}
