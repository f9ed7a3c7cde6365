//! The share of the CPU that a slow lane gets while its lane is busy.
//!
//! A thread of the policy `SCHED_IDLE` runs only while its CPU has nothing else to do, and cannot leave
//! that policy without a privilege. So the lane itself waits for a while, if the slow lane got less than
//! its share.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::base::clock::Tick;
use crate::slow::handover::Handover;
use crate::slow::settings::SlowLanes;

/// Interval between looks at a slow lane that has work. A lane that is held, or whose turns are long, looks
/// later, and then waits for longer.
const EVERY: Duration = Duration::from_millis(4);

/// The longest interval that counts for the length of a wait.
const LONGEST: Duration = Duration::from_millis(20);

/// Less than this is not worth the switch between the threads.
const LEAST: f64 = 50e-6;

/// The CPU time that a slow lane got too little, in seconds.
#[derive(Debug, Default)]
struct Debt(f64);

impl Debt {
    /// Adds what the slow lane was due in `elapsed` and what it `got`. What it got too much counts for
    /// as long as what it got too little.
    fn add(&mut self, share: f64, elapsed: Duration, got: Duration) {
        let most = longest_wait(share, elapsed);
        let owed = self.0 + share * elapsed.as_secs_f64() - got.as_secs_f64();
        self.0 = owed.clamp(-most, most);
    }

    /// How long the lane has to wait now.
    fn due(&self) -> Option<Duration> {
        (self.0 >= LEAST).then(|| Duration::from_secs_f64(self.0))
    }
}

/// What the slow lane is due of the time between two looks and of the wait itself, and half as much
/// again to catch up.
fn longest_wait(share: f64, elapsed: Duration) -> f64 {
    elapsed.clamp(EVERY, LONGEST).as_secs_f64() * share / (1.0 - share) * 1.5
}

/// Runs for as long as the lane runs.
pub(super) async fn run(handover: Rc<Handover>) {
    let Handover { queues, lane, half_times } = &*handover;
    let (shared, slow) = (lane.shared(), queues.counters(lane.index));
    let SlowLanes { share, .. } = queues.settings;
    loop {
        queues.begun(lane.index).await;
        let (mut debt, mut looked) = (Debt::default(), Instant::now());
        let mut got = shared.cpu.slow_time();
        while !slow.is_idle() || slow.is_awake() {
            sleep(EVERY).await;
            let (now, now_got) = (Instant::now(), shared.cpu.slow_time());
            if slow.is_awake() {
                let tick = Tick::now();
                let is_urgent = half_times.all().iter().any(|(_, &half)| half < tick);
                let share = if is_urgent { (2.0 * share).min(SlowLanes::MOST) } else { share };
                debt.add(share, now - looked, now_got.saturating_sub(got));
            } else {
                // It waits, so it lacks nothing.
                debt = Debt::default();
            }
            (looked, got) = (now, now_got);
            if let Some(due) = debt.due() {
                slow.yield_for(due);
                let waited = now.elapsed().as_nanos() as u64;
                shared.yielded.add(waited);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_waits_for_what_the_slow_lane_lacks() {
        let millis = Duration::from_millis;
        let mut debt = Debt::default();
        debt.add(0.15, millis(4), Duration::ZERO);
        assert_eq!(debt.due(), Some(Duration::from_micros(600)));
        // The wait gave it as much.
        debt.add(0.15, millis(4), Duration::from_micros(600));
        assert_eq!(debt.due(), Some(Duration::from_micros(600)));
        debt.add(0.15, millis(4), millis(2));
        assert_eq!(debt.due(), None);
        debt.add(0.15, millis(1000), Duration::ZERO);
        let most = debt.due().expect("it lacks much");
        assert!(most < millis(6), "{most:?}");
    }

    #[test]
    fn a_slow_lane_gets_its_share_however_long_the_turns_of_its_lane_are() {
        for (share, turn) in [(0.15, 4), (0.15, 9), (0.3, 9), (0.15, 18)] {
            let turn = Duration::from_millis(turn);
            let (mut debt, mut waited, mut got, mut all) =
                (Debt::default(), Duration::ZERO, Duration::ZERO, Duration::ZERO);
            for _ in 0..1000 {
                debt.add(share, waited + turn, waited);
                waited = debt.due().unwrap_or_default();
                got += waited;
                all += waited + turn;
            }
            let found = got.as_secs_f64() / all.as_secs_f64();
            assert!((found - share).abs() < 0.001, "{found} with turns of {turn:?}");
        }
    }
}
