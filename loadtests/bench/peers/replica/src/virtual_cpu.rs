//! Simulates the time that a request takes on a CPU.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum delay until a speed change is noticed.
const SLICE: Duration = Duration::from_millis(10);

/// Work that starts within this time after the last work counts as consecutive, because only the
/// overhead of the real CPU was in between.
const BACK_TO_BACK: Duration = Duration::from_millis(2);

/// Maximum compensation for a late wake-up on a busy machine, taken from the following work.
const LATEST: Duration = Duration::from_millis(20);

/// The parameters that standard input changes.
#[derive(Debug)]
pub(crate) struct Condition {
    /// Speed in millionths.
    speed: AtomicU64,
    fails: AtomicBool,
    /// By kind, in microseconds.
    times: [AtomicU64; 2],
}

/// The two kinds of request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Hello,
    Work,
}

impl Default for Condition {
    fn default() -> Self {
        Condition {
            speed: AtomicU64::new(1_000_000),
            fails: AtomicBool::new(false),
            times: [AtomicU64::new(10_000), AtomicU64::new(10_000)],
        }
    }
}

impl Condition {
    /// Executes one line.
    pub(crate) fn change(&self, line: &str) -> Result<(), &'static str> {
        match line.split_once(' ') {
            Some(("speed", value)) => {
                let speed: f64 = value.parse().map_err(|_| "not a number")?;
                if !(0.01..=100.0).contains(&speed) {
                    return Err("a speed is 0.01 to 100");
                }
                self.speed.store((speed * 1e6) as u64, Relaxed);
            }
            Some(("times", values)) => {
                let (hello, work) = values.split_once(' ').ok_or("two times in ms")?;
                for (time, value) in self.times.iter().zip([hello, work]) {
                    let ms: f64 = value.parse().map_err(|_| "not a number")?;
                    time.store((ms * 1000.0) as u64, Relaxed);
                }
            }
            Some(("fail", "0")) => self.fails.store(false, Relaxed),
            Some(("fail", "1")) => self.fails.store(true, Relaxed),
            _ => return Err("speed NUMBER, times MS MS, fail 0 or fail 1"),
        }
        Ok(())
    }

    fn speed(&self) -> f64 {
        self.speed.load(Relaxed) as f64 / 1e6
    }
}

/// Times at which a lane used its virtual CPU, which its slow lane could therefore not use.
#[derive(Debug, Default)]
pub(crate) struct Used(Mutex<(Duration, Option<Instant>)>);

impl Used {
    /// Until `now`, since the start.
    fn until(&self, now: Instant) -> Duration {
        let (before, begun) = *self.0.lock().expect("no thread panics with it");
        before + begun.map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun))
    }

    fn begin(&self) {
        self.0.lock().expect("no thread panics with it").1 = Some(Instant::now());
    }

    fn end(&self) {
        let used = self.until(Instant::now());
        *self.0.lock().expect("no thread panics with it") = (used, None);
    }
}

/// The virtual CPU of one lane.
#[derive(Debug)]
pub(crate) struct VirtualCpu {
    condition: Arc<Condition>,
    used: Arc<Used>,
    /// Whether this is the slow lane's virtual CPU, which the lane interrupts.
    slow: bool,
    /// Planned and actual end of the last work: a sleep ends late, which must not delay the next
    /// work.
    over: Cell<Option<(Instant, Instant)>>,
}

impl VirtualCpu {
    pub(crate) fn new(condition: Arc<Condition>, used: Arc<Used>, slow: bool) -> Self {
        VirtualCpu { condition, used, slow, over: Cell::new(None) }
    }

    pub(crate) fn fails(&self) -> bool {
        self.condition.fails.load(Relaxed)
    }

    /// Returns when the work of a request is done.
    pub(crate) fn hold(&self, kind: Kind) {
        let time = Duration::from_micros(self.condition.times[kind as usize].load(Relaxed));
        if self.slow {
            return self.hold_slowly(time);
        }
        self.used.begin();
        self.hold_at_once(time);
        self.used.end();
    }

    /// The same on the slow lane: only time unused by the lane counts.
    fn hold_slowly(&self, mut left: Duration) {
        let mut seen = Instant::now();
        let mut used = self.used.until(seen);
        while !left.is_zero() {
            let speed = self.condition.speed();
            thread::sleep(left.div_f64(speed).min(SLICE));
            let (now, now_used) = {
                let now = Instant::now();
                (now, self.used.until(now))
            };
            let got = (now - seen).saturating_sub(now_used.saturating_sub(used));
            (seen, used) = (now, now_used);
            left = left.saturating_sub(got.mul_f64(speed) + Duration::from_nanos(10));
        }
    }

    fn hold_at_once(&self, mut left: Duration) {
        let now = Instant::now();
        let mut at = match self.over.get() {
            Some((due, was))
                if now.duration_since(was) < BACK_TO_BACK && was.duration_since(due) < LATEST =>
            {
                due
            }
            _ => now,
        };
        while !left.is_zero() {
            let speed = self.condition.speed();
            let slice = left.div_f64(speed).min(SLICE);
            at += slice;
            thread::sleep(at.saturating_duration_since(Instant::now()));
            // Rounding must not leave a remainder forever.
            left = left.saturating_sub(slice.mul_f64(speed) + Duration::from_nanos(10));
        }
        self.over.set(Some((at, Instant::now())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(speed: &str) -> Duration {
        let condition = Arc::new(Condition::default());
        condition.change("times 1 8").expect("a right line");
        condition.change(speed).expect("a right line");
        let cpu = VirtualCpu::new(condition, Arc::default(), false);
        let begun = Instant::now();
        (0..5).for_each(|_| cpu.hold(Kind::Work));
        begun.elapsed()
    }

    #[test]
    fn work_takes_its_time_divided_by_the_speed() {
        assert!(times("speed 1") >= Duration::from_millis(39));
        assert!(times("speed 0.4") >= Duration::from_millis(99));
    }

    #[test]
    fn a_lane_takes_the_cpu_from_its_slow_lane() {
        let condition = Arc::new(Condition::default());
        condition.change("times 20 30").expect("a right line");
        let used = Arc::new(Used::default());
        let lane = VirtualCpu::new(Arc::clone(&condition), Arc::clone(&used), false);
        let slow = VirtualCpu::new(condition, used, true);
        let begun = Instant::now();
        thread::scope(|scope| {
            scope.spawn(move || slow.hold(Kind::Work));
            scope.spawn(move || (0..3).for_each(|_| lane.hold(Kind::Hello)));
        });
        // 90 ms, minus the lane's pauses, which the slow lane also has but the lane makes up for.
        assert!(begun.elapsed() >= Duration::from_millis(90) - 3 * BACK_TO_BACK);
    }

    #[test]
    fn only_known_lines_are_followed() {
        let condition = Condition::default();
        for line in ["speed", "speed fast", "speed 0", "fail 2", "times 1", "", "stop"] {
            assert!(condition.change(line).is_err(), "{line}");
        }
        assert_eq!(condition.change("fail 1"), Ok(()));
    }
}
