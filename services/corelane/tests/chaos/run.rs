//! A server and its clients, until enough connections have rested and moved.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corelane::{Builder, Chaos, Lanes};
use tokio::task::LocalSet;

use crate::client::{World, live};
use crate::ledger::{Ledger, Report};
use crate::service;
use crate::support::{self, Running};
use crate::tls::Authority;

/// Connections at a time.
pub(crate) const CONNECTIONS: u64 = 64;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) seed: u64,
    pub(crate) lanes: usize,
    pub(crate) plain: bool,
    pub(crate) tls: bool,
    pub(crate) chaos: Chaos,
    pub(crate) answers: usize,
    pub(crate) moves: u64,
    pub(crate) parkings: u64,
}

/// What the server counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) moves: u64,
    pub(crate) parkings: u64,
}

impl Counts {
    pub(crate) fn of(server: &Running) -> Counts {
        let text = server.admin_get("/metrics").text();
        Counts {
            moves: sum(&text, "corelane_connection_moves_total"),
            parkings: sum(&text, "corelane_connection_parkings_total"),
        }
    }
}

/// Sum of a family over its labels.
fn sum(text: &str, family: &str) -> u64 {
    let lines = text.lines().filter(|line| {
        line.strip_prefix(family).is_some_and(|rest| rest.starts_with([' ', '{']))
    });
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

impl Course {
    fn builder(&self) -> Builder {
        support::builder().lanes(Lanes::Count(self.lanes)).plain_requests(self.plain).chaos(self.chaos)
    }

    /// Runs it until the server has counted what is asked for, or a fault was found.
    pub(crate) fn run(&self) -> (Report, Counts) {
        let authority = self.tls.then(Authority::new);
        let mut builder = self.builder();
        if let Some(authority) = &authority {
            builder = builder.tls(authority.ready());
        }
        let ledger = Arc::new(Ledger::default());
        let entered = Arc::clone(&ledger);
        let server = Running::start(builder, move |_lane| {
            let ledger = Arc::clone(&entered);
            tower::service_fn(move |request| service::answer(Arc::clone(&ledger), request))
        });
        let tls = authority.map(|authority| Arc::new(authority.client(&["http/1.1"], None)));
        let over = AtomicBool::new(false);
        let address = server.address;
        let counts = std::thread::scope(|scope| {
            let (ledger, over) = (&ledger, &over);
            scope.spawn(move || {
                let world = World {
                    address,
                    tls,
                    ledger: Arc::clone(ledger),
                    over: Cell::new(false),
                    draining: Cell::new(false),
                };
                clients(Rc::new(world), self.seed, over);
            });
            let counts = loop {
                std::thread::sleep(Duration::from_millis(50));
                let counts = Counts::of(&server);
                let enough = counts.moves >= self.moves
                    && counts.parkings >= self.parkings
                    && ledger.answered() >= self.answers;
                if enough || ledger.faults() > 0 {
                    break counts;
                }
            };
            over.store(true, Ordering::Relaxed);
            counts
        });
        server.handle.drain();
        let drained = server.join();
        let report = ledger.close();
        assert!(drained.is_ok_and(|drained| drained.cut == 0) || report.faults > 0, "cut");
        (report, counts)
    }
}

/// Lets all clients live until it is `over`.
fn clients(world: Rc<World>, seed: u64, over: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let clients = (0..CONNECTIONS).map(|n| {
            tokio::task::spawn_local(live(Rc::clone(&world), seed.wrapping_mul(1000) + n))
        });
        let clients: Vec<_> = clients.collect();
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        world.over.set(true);
        for client in clients {
            client.await.expect("a client does not panic");
        }
    });
}

/// How long a run took, for the report.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = run();
    (result, begun.elapsed())
}
