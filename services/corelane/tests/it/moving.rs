//! Tests that clients do not notice when connections move to another lane between requests.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use crate::support::{Client, Running, builder};
use bytes::Bytes;
use corelane::{Builder, Drained, Incoming, Lane, Lanes, Limits, Moving, Placement};
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;

type Service = BoxCloneSyncService<Request<Incoming>, Response<Full<Bytes>>, Infallible>;

/// Responses name the lane: `/gate` waits for a permit, `/spin/{n}` blocks for n milliseconds,
/// `/ends` returns both addresses.
#[derive(Clone)]
struct Handlers {
    gate: Arc<Semaphore>,
}

impl Handlers {
    fn new() -> Handlers {
        Handlers { gate: Arc::new(Semaphore::new(0)) }
    }

    fn factory(&self) -> impl Fn(&Lane) -> Service + Send + Sync + 'static + use<> {
        let handlers = self.clone();
        move |lane| {
            let (gate, lane) = (Arc::clone(&handlers.gate), lane.index());
            BoxCloneSyncService::new(tower::service_fn(move |request: Request<Incoming>| {
                let gate = Arc::clone(&gate);
                async move {
                    let path = request.uri().path();
                    if path == "/gate" {
                        gate.acquire().await.expect("open").forget();
                    } else if let Some(millis) = path.strip_prefix("/spin/") {
                        let time = Duration::from_millis(millis.parse().expect("a number"));
                        let begun = Instant::now();
                        while begun.elapsed() < time {}
                    }
                    let mut text = lane.to_string();
                    if path == "/ends" {
                        let connection = corelane::connection().expect("a connection");
                        text = format!("{:?} {:?}", connection.peer, connection.local);
                    }
                    Ok(Response::new(Full::from(text)))
                }
            }))
        }
    }
}

fn lanes(moving: Moving) -> Builder {
    let limits = Limits { slots: 1, ..Limits::default() };
    let park_after = Some(Duration::from_millis(100));
    let routes = ["/", "/gate", "/spin/{n}"];
    builder()
        .lanes(Lanes::Count(2))
        .limits(limits)
        .routes(routes)
        .park_after(park_after)
        .moving(moving)
}

/// Parking is off, because a delayed client's connection could wake on the other lane.
fn in_use(moving: Moving) -> Builder {
    lanes(moving).park_after(None)
}

impl Running {
    fn of_lane(&self, name: &str, lane: usize) -> usize {
        self.metric(&format!("{name}{{lane=\"{lane}\"}}")) as usize
    }

    fn moves(&self, lane: usize, reason: &str) -> usize {
        let family = "corelane_connection_moves_total";
        self.metric(&format!("{family}{{lane=\"{lane}\",reason=\"{reason}\"}}")) as usize
    }

    fn plans(&self, outcome: &str) -> usize {
        self.metric(&format!("corelane_moving_plans_total{{outcome=\"{outcome}\"}}")) as usize
    }

    fn moves_in_all(&self) -> usize {
        let reasons = || ["wake", "busy", "saturated"].into_iter();
        (0..2).map(|lane| reasons().map(|why| self.moves(lane, why)).sum::<usize>()).sum()
    }

    fn arrivals(&self) -> usize {
        (0..2).map(|lane| self.of_lane("corelane_connection_arrivals_total", lane)).sum()
    }

    fn connect_to(&self, lane: usize) -> Client {
        let mut others = Vec::new();
        // In the long run, the lane gets half of the connections, chosen by the kernel's hash or by
        // which lane is free.
        for _ in 0..200 {
            let mut client = self.connect();
            if client.get("/").text() == lane.to_string() {
                return client;
            }
            others.push(client);
        }
        panic!("no connection came to lane {lane}");
    }
}

/// Maximum attempts to get a quiet round. A lane without CPU time is not free and loses queued
/// connections to other lanes.
const ROUNDS: usize = 20;

/// Makes lane 0 busier than lane 1: it has two parked connections, one request in its only slot,
/// and one long request in its queue.
struct Uneven {
    server: Running,
    handlers: Handlers,
    parked: [Client; 2],
    holder: Client,
    queued: Client,
}

impl Uneven {
    fn new(builder: Builder) -> Uneven {
        let made = (0..ROUNDS).find_map(|_| Uneven::try_new(builder.clone()));
        made.expect("one that stays as it was made")
    }

    /// `None` if a connection parked before its request, and so may have moved.
    fn try_new(builder: Builder) -> Option<Uneven> {
        let handlers = Handlers::new();
        let server = Running::start(builder, handlers.factory());
        let mut parked = [(); 2].map(|()| server.connect_to(0));
        if parked[0].get("/spin/20").text() != "0" {
            return None;
        }
        let is_parked = || server.of_lane("corelane_connections_parked", 0) == 2;
        server.wait_until("parked", is_parked);
        let mut waiting = [(); 2].map(|()| server.connect_to(0));
        for (index, target) in ["/gate", "/spin/20"].into_iter().enumerate() {
            waiting[index].send_get(target);
            let begun = || server.of_lane("corelane_requests_in_flight", 0) > index;
            server.wait_until("in flight", || begun() || server.moves_in_all() > 0);
        }
        if server.moves_in_all() > 0 {
            handlers.gate.add_permits(waiting.len());
            waiting.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
            return None;
        }
        let [holder, queued] = waiting;
        Some(Uneven { server, handlers, parked, holder, queued })
    }

    fn release(&mut self) {
        self.handlers.gate.add_permits(1);
        assert_eq!(self.holder.read_answer().text(), "0");
        assert_eq!(self.queued.read_answer().text(), "0");
    }
}

#[test]
fn a_connection_that_wakes_is_served_by_the_lane_that_is_free() {
    for placement in [Placement::Hashed, Placement::LeastLoaded] {
        let mut uneven = Uneven::new(lanes(Moving::ParkedOnly).placement(placement));
        for client in &mut uneven.parked {
            assert_eq!(client.get("/").text(), "1", "{placement}");
            let own = client.socket.local_addr().expect("an address");
            let ends = format!("{:?} {:?}", Some(own), Some(uneven.server.address));
            assert_eq!(client.get("/ends").text(), ends);
        }
        let server = &uneven.server;
        assert_eq!(server.moves(0, "wake"), 2);
        assert_eq!(server.of_lane("corelane_connection_arrivals_total", 1), 2);
        assert_eq!(server.metric("corelane_connections_in_transit"), 0.0);
        uneven.release();
    }
}

/// Whether connections stay on idle lanes. False if a lane lacked CPU and therefore was not idle.
fn free_lanes_keep_theirs() -> bool {
    let server = Running::start(lanes(Moving::ParkedOnly), Handlers::new().factory());
    let mut clients = [(); 2].map(|()| [0, 1].map(|lane| server.connect_to(lane)));
    let parked = |lane| server.of_lane("corelane_connections_parked", lane) >= 2;
    server.wait_until("parked", || parked(0) && parked(1));
    let moves = server.moves_in_all();
    let mut stay = true;
    for both in &mut clients {
        stay &= both.each_mut().map(|client| client.get("/").text()) == ["0", "1"];
    }
    assert_eq!(stay, server.moves_in_all() == moves);
    stay
}

#[test]
fn a_connection_that_wakes_stays_where_no_lane_is_better() {
    assert!((0..ROUNDS).any(|_| free_lanes_keep_theirs()), "they always move");
}

/// Checks that a moved connection counts for its new lane. False if connections were stolen, which
/// makes the result unusable.
fn is_counted_where_it_went() -> bool {
    let mut uneven = Uneven::new(lanes(Moving::ParkedOnly).placement(Placement::LeastLoaded));
    for client in &mut uneven.parked {
        assert_eq!(client.get("/").text(), "1");
    }
    uneven.release();
    let Uneven { server, parked: _moved, holder, queued, .. } = uneven;
    drop((holder, queued));
    let open = |lane| server.of_lane("corelane_connections", lane);
    server.wait_until("closed", || (open(0), open(1)) == (0, 2));
    let next = [(); 2].map(|()| {
        let mut client = server.connect();
        (client.get("/").text(), client)
    });
    let stolen = |lane| server.of_lane("corelane_connections_stolen_total", lane);
    if stolen(0) + stolen(1) > 0 {
        return false;
    }
    assert_eq!(next.map(|(lane, _)| lane), ["0", "0"]);
    true
}

#[test]
fn an_acceptor_knows_which_lane_a_connection_went_to() {
    assert!((0..ROUNDS).any(|_| is_counted_where_it_went()), "some are always stolen");
}

/// Closed-loop clients, one thread each.
struct Load {
    stop: Arc<AtomicBool>,
    /// Set before a drain: later requests may go unanswered.
    drains: Arc<AtomicBool>,
    /// Clients that a lane other than the first has answered.
    moved: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<usize>>>,
}

impl Load {
    fn start(clients: Vec<Client>, target: &'static str) -> Load {
        let [stop, drains] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let moved = Arc::new(AtomicUsize::new(0));
        let run = |mut client: Client| {
            let (stop, drains, moved) =
                (Arc::clone(&stop), Arc::clone(&drains), Arc::clone(&moved));
            spawn(move || {
                let (mut lanes, mut has_moved) = (Vec::new(), false);
                loop {
                    // Sends one more request after `stop`, in case the connection has just been
                    // moved.
                    let last = stop.load(Ordering::SeqCst);
                    let may_end = drains.load(Ordering::SeqCst);
                    let Some(answer) = client.try_get(target) else {
                        assert!(may_end, "a request is lost");
                        return lanes;
                    };
                    assert_eq!(answer.status, 200);
                    lanes.push(answer.text().parse().expect("a lane"));
                    if !has_moved && lanes.last() != lanes.first() {
                        has_moved = true;
                        moved.fetch_add(1, Ordering::SeqCst);
                    }
                    if last || answer.closes() {
                        return lanes;
                    }
                }
            })
        };
        Load { clients: clients.into_iter().map(run).collect(), stop, drains, moved }
    }

    fn moved(&self) -> usize {
        self.moved.load(Ordering::SeqCst)
    }

    fn end(self) -> Vec<Vec<usize>> {
        self.stop.store(true, Ordering::SeqCst);
        self.join()
    }

    /// Waits until all connections are closed.
    fn join(self) -> Vec<Vec<usize>> {
        let ended = self.clients.into_iter().map(JoinHandle::join);
        ended.map(|lanes| lanes.expect("every request is answered")).collect()
    }
}

/// Moves active connections, 8 of which start on lane 0.
fn hot() -> (Running, Vec<Client>) {
    let server = Running::start(in_use(Moving::Active), Handlers::new().factory());
    let clients = (0..8).map(|_| server.connect_to(0)).collect();
    (server, clients)
}

#[test]
fn connections_of_a_hot_lane_spread() {
    let (server, clients) = hot();
    let load = Load::start(clients, "/spin/2");
    server.wait_until("spread", || load.moved() >= 3);
    let ways = load.end();
    assert!(ways.iter().all(|way| way[0] == 0));
    assert!(server.moves(0, "busy") + server.moves(0, "saturated") >= 3);
    // A connection may move after its last response.
    server.wait_for_metric("corelane_connections_in_transit", 0.0);
    server.wait_until("arrived", || server.moves_in_all() == server.arrivals());
}

#[test]
fn one_hot_connection_stays() {
    let server = Running::start(in_use(Moving::Active), Handlers::new().factory());
    let load = Load::start(vec![server.connect_to(0)], "/spin/20");
    server.wait_until("looked at", || server.plans("futile") >= 2);
    let ways = load.end();
    assert_eq!(ways[0].iter().copied().collect::<BTreeSet<_>>(), [0].into());
    assert_eq!(server.moves_in_all(), 0);
}

#[test]
fn connections_in_use_stay_unless_they_may_move() {
    let server = Running::start(in_use(Moving::ParkedOnly), Handlers::new().factory());
    let clients = (0..4).map(|_| server.connect_to(0)).collect();
    let load = Load::start(clients, "/spin/2");
    let done = || server.of_lane("corelane_lane_busy_seconds_total", 0) >= 1;
    server.wait_until("busy", done);
    for way in load.end() {
        assert!(way.iter().all(|&lane| lane == 0));
    }
    assert_eq!(server.moves_in_all(), 0);
    assert_eq!(["helped", "futile", "no_help"].map(|outcome| server.plans(outcome)), [0; 3]);
}

/// Whether equally loaded lanes keep their connections. False if one lane lacked CPU, so the load
/// was not equal.
fn even_lanes_stay() -> bool {
    let server = Running::start(in_use(Moving::Active), Handlers::new().factory());
    let clients = [0, 1, 0, 1].map(|lane| server.connect_to(lane));
    let load = Load::start(clients.into(), "/spin/1");
    let busy = |lane| server.of_lane("corelane_lane_busy_seconds_total", lane) >= 1;
    server.wait_until("busy", || busy(0) && busy(1));
    load.end();
    server.moves_in_all() == 0
}

#[test]
fn even_lanes_keep_their_connections() {
    assert!((0..ROUNDS).any(|_| even_lanes_stay()), "connections always move");
}

#[test]
fn a_drain_in_the_middle_loses_no_request() {
    let (server, clients) = hot();
    let load = Load::start(clients, "/spin/2");
    server.wait_until("moving", || server.moves_in_all() > 0);
    load.drains.store(true, Ordering::SeqCst);
    server.handle.drain();
    for way in load.join() {
        assert!(!way.is_empty());
    }
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}
