//! Assignment of connections to lanes.

use crate::support::stuck::Stuck;
use crate::support::{Client, Running, builder};
use corelane::{Builder, Lanes, Placement};

fn lanes(placement: Placement, lanes: usize) -> Builder {
    // Blocked requests would otherwise skew the measured costs.
    builder().placement(placement).lanes(Lanes::Count(lanes)).routes(["/block"])
}

/// Sends one request per connection and returns the answering lanes.
fn lanes_of(clients: &mut [Client]) -> Vec<usize> {
    clients.iter_mut().map(|client| client.get("/").text().parse().expect("a lane")).collect()
}

fn count(lanes: &[usize], lane: usize) -> usize {
    lanes.iter().filter(|&&of| of == lane).count()
}

fn of_lane(server: &Running, name: &str, lane: usize) -> usize {
    server.metric(&format!("{name}{{lane=\"{lane}\"}}")) as usize
}

/// Sum of a metric over the first `lanes` lanes.
fn of_all(server: &Running, name: &str, lanes: usize) -> usize {
    (0..lanes).map(|lane| of_lane(server, name, lane)).sum()
}

/// Opens connections and waits until all are placed, because the cost of running requests also
/// counts.
fn connect(server: &Running, connections: usize, lanes: usize) -> Vec<Client> {
    let clients = (0..connections).map(|_| server.connect()).collect();
    let placed = || of_all(server, "corelane_connections_placed_total", lanes);
    server.wait_until("placed", || placed() == connections);
    clients
}

/// Maximum attempts to get a quiet round. A lane that lacks CPU time loses queued connections to
/// other lanes, which makes the distribution uneven.
const ROUNDS: usize = 20;

/// Checks the distribution. False if connections were stolen, which makes the result unusable.
fn spreads_evenly(count_of_lanes: usize, connections: usize) -> bool {
    let server =
        Running::start(lanes(Placement::LeastLoaded, count_of_lanes), Stuck::default().factory());
    let mut clients = connect(&server, connections, count_of_lanes);
    let spread = lanes_of(&mut clients);
    assert_eq!(of_all(&server, "corelane_connections_queued", count_of_lanes), 0);
    if of_all(&server, "corelane_connections_stolen_total", count_of_lanes) > 0 {
        return false;
    }
    for lane in 0..count_of_lanes {
        let each = connections / count_of_lanes;
        assert_eq!(count(&spread, lane), each, "{connections} over {count_of_lanes}: {spread:?}");
        assert_eq!(of_lane(&server, "corelane_connections", lane), each);
    }
    true
}

#[test]
fn few_long_lived_connections_are_spread_evenly_by_least_loaded() {
    for (count_of_lanes, connections) in [(2, 8), (2, 16), (4, 8), (4, 16)] {
        let quiet = (0..ROUNDS).any(|_| spreads_evenly(count_of_lanes, connections));
        assert!(quiet, "{connections} over {count_of_lanes}: some are always stolen");
    }
}

/// Checks that an empty lane gets the next connection. False if connections were stolen.
fn gets_the_next() -> bool {
    let server = Running::start(lanes(Placement::LeastLoaded, 2), Stuck::default().factory());
    let mut clients = connect(&server, 8, 2);
    let spread = lanes_of(&mut clients);
    let mut of = spread.iter();
    clients.retain(|_| of.next() == Some(&1));
    server.wait_until("closed", || of_lane(&server, "corelane_connections", 0) == 0);
    // Opens connections one by one, because a queued connection counts with its expected cost.
    let mut later = Vec::new();
    let came_to = [(); 4].map(|()| {
        let mut client = [server.connect()];
        let lane = lanes_of(&mut client)[0];
        later.push(client);
        lane
    });
    if of_all(&server, "corelane_connections_stolen_total", 2) > 0 {
        return false;
    }
    assert_eq!(came_to, [0; 4]);
    true
}

#[test]
fn a_lane_that_lost_its_connections_gets_the_next() {
    assert!((0..ROUNDS).any(|_| gets_the_next()), "some are always stolen");
}

#[test]
fn connections_queued_at_a_stuck_lane_are_stolen_by_one_that_becomes_idle() {
    for idle in [0, 1] {
        let stuck = Stuck::default();
        let server = Running::start(lanes(Placement::LeastLoaded, 2), stuck.factory());
        let mut blocked = stuck.block_all(&server, 2);
        let placed = || of_all(&server, "corelane_connections_placed_total", 2);
        server.wait_until("placed", || placed() == blocked.len());
        let open = of_lane(&server, "corelane_connections", idle);
        let stolen = || of_lane(&server, "corelane_connections_stolen_total", idle);
        let stolen_before = stolen();
        let waiting = |lane| of_lane(&server, "corelane_connections_queued", lane);
        // Blocking both lanes may have taken more than two requests.
        let early = waiting(0) + waiting(1);
        let mut queued: Vec<_> = (0..40).map(|_| server.connect()).collect();
        queued.iter_mut().for_each(|client| client.send_get("/"));
        server.wait_until("queued", || waiting(0) + waiting(1) == early + 40);
        let held = waiting(1 - idle);
        assert!(held > 0);

        stuck.release(idle);
        for client in &mut queued {
            assert_eq!(client.read_answer().text(), idle.to_string());
        }
        assert_eq!(stuck.blocked(), [1 - idle].into(), "the other is stuck to this moment");
        assert_eq!(stolen(), stolen_before + held);
        assert_eq!(waiting(0) + waiting(1), 0);
        stuck.release(1 - idle);
        blocked.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
        assert_eq!(of_lane(&server, "corelane_connections", idle), open + early + 40);
    }
}

#[test]
fn connections_queued_at_a_stuck_lane_wake_one_that_sleeps() {
    let stuck = Stuck::default();
    let server = Running::start(lanes(Placement::LeastLoaded, 2), stuck.factory());
    // Lane 0 has the fewest connections, gets the next one, and is stuck.
    let mut clients = connect(&server, 24, 2);
    let spread = lanes_of(&mut clients);
    let (mut of_0, of_1): (Vec<_>, Vec<_>) =
        clients.into_iter().zip(spread).partition(|(_, lane)| *lane == 0);
    of_0.truncate(1);
    server.wait_until("closed", || of_lane(&server, "corelane_connections", 0) == 1);
    let (holder, _) = &mut of_0[0];
    holder.send_get("/block");
    server.wait_until("blocked", || stuck.blocked() == [0].into());

    for _ in 0..10 {
        assert_eq!(server.get("/").text(), "1");
    }
    let stolen = of_lane(&server, "corelane_connections_stolen_total", 1);
    let placed = of_lane(&server, "corelane_connections_placed_total", 0);
    assert!(stolen > 0, "{placed} were placed on lane 0");
    assert_eq!(stuck.blocked(), [0].into());
    stuck.release(0);
    assert_eq!(holder.read_answer().status, 200);
    drop(of_1);
}
