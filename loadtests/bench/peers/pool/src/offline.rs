//! The queue and the workers without sockets: the cost of a request, if only the length of the
//! queue or the memory of a waiting request changes.

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

/// Seed of the order in memory.
const SEED: u64 = 1;

/// Bytes of a cache line.
const LINE: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Number of requests in the queue.
    #[arg(long, default_value_t = 1)]
    length: usize,
    /// Number of requests to answer.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Iterations of each request.
    #[arg(long, default_value_t = 0)]
    ops: u64,
    /// Bytes that each waiting request holds, all of which are read when it is answered; with 0 the
    /// queue holds only descriptors of 4 bytes.
    #[arg(long, default_value_t = 0)]
    bytes: usize,
}

/// An entry of the queue.
trait Request: Send {
    /// Reads the memory that it holds.
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

/// Runs the plan and returns the report as JSON.
pub(crate) fn run(plan: &Plan) -> String {
    if plan.bytes == 0 {
        return measure(plan, (0..plan.length as u32).collect());
    }
    let mut requests: Vec<Box<[u8]>> =
        (0..plan.length).map(|number| vec![number as u8; plan.bytes].into()).collect();
    // Shuffled as after hours of service: neighbours in the queue are not neighbours in memory.
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

/// Serves requests until none is left.
fn work<T: Request>(queue: &Queue<T>, left: &AtomicU64, ops: u64) {
    let one_less = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
        let request = queue.pop();
        black_box(request.read());
        black_box(Work { ops }.reply());
        queue.push(request);
    }
}

/// CPU time of this process, over all threads (clock_gettime(2)).
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
