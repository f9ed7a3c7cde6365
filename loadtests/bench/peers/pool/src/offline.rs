//! The queue and the workers without sockets: what a request costs when only the length of the
//! queue, or what a waiting request holds, is changed.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::time::{ClockId, clock_gettime};
use peers::Work;
use serde_json::json;

use crate::queue::Queue;

/// The same seed gives the same order in memory.
const SEED: u64 = 1;

/// Bytes of a cache line: to read one of them fetches all.
const LINE: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Requests that wait in the queue all the time.
    #[arg(long, default_value_t = 1)]
    length: usize,
    /// Requests to answer.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Iterations of each.
    #[arg(long, default_value_t = 0)]
    ops: u64,
    /// Bytes that each waiting request holds, every line of which is read when it is answered; with 0
    /// the queue holds descriptors alone, 4 bytes each.
    #[arg(long, default_value_t = 0)]
    bytes: usize,
}

/// What waits in the queue.
trait Request: Send {
    /// Reads what it holds.
    fn read(&self) -> u64;
}

impl Request for u32 {
    fn read(&self) -> u64 {
        u64::from(*self)
    }
}

impl Request for Box<[u8]> {
    fn read(&self) -> u64 {
        self.iter().step_by(LINE).map(|byte| u64::from(*byte)).sum()
    }
}

/// Runs the plan; the report, as JSON.
pub(crate) fn run(plan: &Plan) -> String {
    if plan.bytes == 0 {
        return measure(plan, (0..plan.length as u32).collect());
    }
    let mut requests: Vec<Box<[u8]>> =
        (0..plan.length).map(|number| vec![number as u8; plan.bytes].into()).collect();
    // As after hours of service: neighbours in the queue are none in memory.
    fastrand::Rng::with_seed(SEED).shuffle(&mut requests);
    measure(plan, requests)
}

fn measure<T: Request>(plan: &Plan, requests: Vec<T>) -> String {
    let queue = Queue::new();
    requests.into_iter().for_each(|request| queue.push(request));
    let (left, ready) = (AtomicU64::new(plan.requests), Barrier::new(plan.threads + 1));
    let (begun, before) = thread::scope(|scope| {
        for _ in 0..plan.threads {
            scope.spawn(|| {
                ready.wait();
                work(&queue, &left, plan.ops);
            });
        }
        let started = (Instant::now(), cpu());
        ready.wait();
        started
    });
    json!({
        "requests": plan.requests,
        "seconds": begun.elapsed().as_secs_f64(),
        "cpu_seconds": (cpu() - before).as_secs_f64(),
    })
    .to_string()
}

/// What a worker does until no request is left.
fn work<T: Request>(queue: &Queue<T>, left: &AtomicU64, ops: u64) {
    let one_less = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
        let request = queue.pop();
        black_box(request.read());
        black_box(Work { ops }.reply());
        queue.push(request);
    }
}

/// CPU time of this process so far, of all its threads (clock_gettime(2)).
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock that Linux has").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_whatever_the_queue_holds() {
        for (bytes, threads) in [(0, 1), (64, 1), (64, 3)] {
            let plan = Plan { threads, length: 5, requests: 100, ops: 1, bytes };
            let report: serde_json::Value = serde_json::from_str(&run(&plan)).expect("JSON");
            assert_eq!(report["requests"], 100);
            assert!(report["cpu_seconds"].as_f64() > Some(0.0));
        }
    }
}
