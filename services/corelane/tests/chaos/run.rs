//! Runs a server and its clients until enough connections have parked and moved.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use corelane::{Chaos, Drained, Lanes, Limits};
use tokio::task::LocalSet;

use crate::client::{World, live};
use crate::ledger::{Ledger, Report};
use crate::recipe;
use crate::script::Habit;
use crate::service;
use crate::support::tls::Authority;
use crate::support::{self, Running};

pub(crate) const MANY: u64 = 64;

const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) lanes: usize,
    pub(crate) connections: u64,
    pub(crate) plain: bool,
    pub(crate) tls: bool,
    pub(crate) habit: Habit,
    /// Timeout of one read or write.
    pub(crate) patience: Duration,
    pub(crate) chaos: Chaos,
    pub(crate) enough: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) moves: u64,
    pub(crate) parkings: u64,
    pub(crate) lent: u64,
    pub(crate) answers: u64,
}

impl Counts {
    fn of(server: &Running, ledger: &Ledger) -> Counts {
        let text = server.admin_get("/metrics").text();
        Counts {
            moves: sum(&text, "corelane_connection_moves_total"),
            parkings: sum(&text, "corelane_connection_parkings_total"),
            lent: sum(&text, "corelane_connections_lent_total"),
            answers: ledger.answered() as u64,
        }
    }

    fn reach(&self, enough: &Counts) -> bool {
        self.moves >= enough.moves
            && self.parkings >= enough.parkings
            && self.lent >= enough.lent
            && self.answers >= enough.answers
    }
}

fn sum(text: &str, family: &str) -> u64 {
    let lines = text
        .lines()
        .filter(|line| line.strip_prefix(family).is_some_and(|rest| rest.starts_with([' ', '{'])));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

pub(crate) struct Race {
    course: Course,
    server: Running,
    world: Arc<World>,
    clients: thread::JoinHandle<()>,
}

impl Course {
    pub(crate) fn start(self) -> Race {
        let authority = self.tls.then(Authority::new);
        let mut builder = support::builder()
            .lanes(Lanes::Count(self.lanes))
            .plain_requests(self.plain)
            .limits(Limits { slots: 1000, queue: 10_000, ..Limits::default() })
            .chaos(self.chaos);
        if let Some(authority) = &authority {
            builder = builder.tls(authority.ready());
        }
        // Computes the bytes in advance, so that no request waits for them.
        recipe::reply_body(0, 0);
        let ledger = Arc::new(Ledger::default());
        let entered = Arc::clone(&ledger);
        let server = Running::start(builder, move |_lane| {
            let ledger = Arc::clone(&entered);
            tower::service_fn(move |request| service::answer(Arc::clone(&ledger), request))
        });
        let tls = authority.map(|authority| Arc::new(authority.client(&["http/1.1"], None)));
        let world = Arc::new(World {
            address: server.address,
            tls,
            ledger,
            habit: self.habit,
            patience: self.patience,
            over: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&world);
        let clients = thread::spawn(move || clients(&theirs, self));
        Race { course: self, server, world, clients }
    }
}

impl Race {
    pub(crate) fn until(mut self, enough: Counts) -> Race {
        self.course.enough = enough;
        self
    }

    /// Waits until the counts are reached or the first fault occurs.
    pub(crate) fn wait(&self) -> Counts {
        let enough = self.course.enough;
        self.wait_until(|counts| counts.reach(&enough) || self.world.ledger.faults() > 0)
    }

    pub(crate) fn wait_until(&self, reached: impl Fn(&Counts) -> bool) -> Counts {
        loop {
            thread::sleep(LOOK);
            let counts = Counts::of(&self.server, &self.world.ledger);
            if reached(&counts) {
                return counts;
            }
        }
    }

    /// Kills a faulty server, and clients that wait for it.
    pub(crate) fn abandon(self) {
        self.world.draining.store(true, Ordering::SeqCst);
        self.world.over.store(true, Ordering::SeqCst);
        self.server.handle.stop();
        let _ = self.server.join();
        self.clients.join().expect("clients do not panic");
    }

    pub(crate) fn faults(&self) -> usize {
        self.world.ledger.faults()
    }

    pub(crate) fn finish(self) -> Report {
        if self.faults() > 0 {
            println!("{}", self.server.admin_get("/lanes").text());
        }
        self.world.over.store(true, Ordering::SeqCst);
        self.clients.join().expect("clients do not panic");
        self.server.handle.drain();
        end(self.server, &self.world.ledger);
        self.world.ledger.close()
    }

    /// Shuts the server down with clients still running.
    pub(crate) fn drain(self) -> Report {
        self.world.draining.store(true, Ordering::SeqCst);
        self.server.handle.drain();
        end(self.server, &self.world.ledger);
        self.world.over.store(true, Ordering::SeqCst);
        self.clients.join().expect("clients do not panic");
        self.world.ledger.close()
    }
}

/// A clean exit: no connection was cut.
fn end(server: Running, ledger: &Ledger) {
    match server.join() {
        Ok(Drained { cut: 0, .. }) => {}
        Ok(drained) => ledger.fault(format!("{drained:?}")),
        Err(error) => ledger.fault(error.to_string()),
    }
}

fn clients(world: &Arc<World>, course: Course) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let clients = (0..course.connections).map(|n| {
            let seed = course.chaos.seed.wrapping_mul(1000).wrapping_add(n);
            tokio::task::spawn_local(live(Arc::clone(world), seed))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.expect("a client does not panic");
        }
    });
}

/// Serializes tests, because descriptors, memory and CPUs are shared by the process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("a folder").count()
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < support::PATIENCE, "still not {what}");
        thread::sleep(LOOK);
    }
}

/// Resident memory of this process in MiB.
pub(crate) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024
}

pub(crate) fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = what();
    (result, begun.elapsed())
}
