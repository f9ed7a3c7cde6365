//! The slow lane's share of the CPU while its lane is busy.
//!
//! A `SCHED_IDLE` thread runs only while its CPU is otherwise idle, and it needs a privilege to
//! leave that policy. Therefore, the lane itself pauses for a while if the slow lane got less than
//! its share.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::base::clock::Tick;
use crate::slow::handover::Handover;
use crate::slow::settings::SlowLanes;

/// Interval between checks of a slow lane that has work. If a lane is blocked or has long turns, it
/// checks later and therefore waits longer.
const EVERY: Duration = Duration::from_millis(4);

/// Maximum interval that counts towards the length of a wait.
const LONGEST: Duration = Duration::from_millis(20);

/// A shorter wait is not worth the thread switch.
const LEAST: f64 = 50e-6;

/// CPU seconds missing from a slow lane's share.
#[derive(Debug, Default)]
struct Debt(f64);

impl Debt {
    /// Adds the slow lane's share of `elapsed` and subtracts the time that the slow lane `got`. A
    /// surplus is remembered as long as a deficit.
    fn add(&mut self, share: f64, elapsed: Duration, got: Duration) {
        let most = longest_wait(share, elapsed);
        let owed = self.0 + share * elapsed.as_secs_f64() - got.as_secs_f64();
        self.0 = owed.clamp(-most, most);
    }

    fn due(&self) -> Option<Duration> {
        (self.0 >= LEAST).then(|| Duration::from_secs_f64(self.0))
    }
}

/// Maximum wait: the slow lane's share of the time between two checks and of the wait itself, plus
/// half as much to catch up.
fn longest_wait(share: f64, elapsed: Duration) -> f64 {
    elapsed.clamp(EVERY, LONGEST).as_secs_f64() * share / (1.0 - share) * 1.5
}

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
                // The slow lane is idle, so it is owed nothing.
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
        // The wait gave the slow lane exactly the time that it was owed.
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
