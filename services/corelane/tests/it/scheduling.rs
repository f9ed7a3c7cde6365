//! Which request a lane starts next, and which it rejects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Client, PATIENCE, Running, TestService, builder, worker::with_worker};
use corelane::{Lane, Lanes, Limits, Placement, Timeouts};
use http::Response;
use http_body_util::Full;
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;

/// Routes that each have their own learnt cost.
const ROUTES: [&str; 6] = ["/brief", "/medium", "/slow", "/long", "/block", "/gate"];

/// Cheaper requests start immediately ([`corelane::BRIEF`]).
const BRIEF: Duration = Duration::from_micros(100);

/// Records the order in which requests start.
#[derive(Clone)]
struct Notes {
    begun: Arc<Mutex<Vec<String>>>,
    /// Signals that `/block` holds the lane.
    blocked: Sender<()>,
    release: Arc<Mutex<Receiver<()>>>,
    /// `/gate` waits here without blocking the lane.
    gate: Arc<Semaphore>,
}

struct Control {
    server: Running,
    notes: Notes,
    blocked: Receiver<()>,
    release: Sender<()>,
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Notes {
    async fn answer(self, target: String) -> crate::support::Reply {
        self.begun.lock().expect("no panic").push(target.clone());
        match target.split('?').next().unwrap_or_default() {
            "/medium" => spin(Duration::from_millis(1)),
            "/slow" => spin(Duration::from_millis(20)),
            "/long" => spin(Duration::from_millis(50)),
            "/block" => {
                self.blocked.send(())?;
                let release = self.release.lock().map_err(|error| error.to_string())?;
                release.recv_timeout(PATIENCE)?;
            }
            "/gate" => self.gate.acquire().await?.forget(),
            _ => {}
        }
        Ok(Response::new(Full::from("done")))
    }
}

fn start(limits: Limits, timeouts: Timeouts) -> Control {
    let (blocked_in, blocked) = channel();
    let (release, release_out) = channel();
    let notes = Notes {
        begun: Arc::default(),
        blocked: blocked_in,
        release: Arc::new(Mutex::new(release_out)),
        gate: Arc::new(Semaphore::new(0)),
    };
    let service = notes.clone();
    let builder = builder().routes(ROUTES).limits(limits).timeouts(timeouts);
    let server = Running::start(builder, move |_lane: &Lane| -> TestService {
        let notes = service.clone();
        BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<_>| {
            let target = request.uri().path_and_query().map(ToString::to_string);
            notes.clone().answer(target.unwrap_or_default())
        }))
    });
    Control { server, notes, blocked, release }
}

impl Control {
    /// Trains the load table, replacing measurements from busy periods.
    fn teach(&self) {
        for (target, most) in [("/brief", 1), ("/medium", 5), ("/slow", 40)] {
            let mut client = self.server.connect();
            (0..5).for_each(|_| assert_eq!(client.get(target).status, 200));
            self.teach_less(&mut client, target, Duration::from_millis(most));
        }
        self.begun().clear();
    }

    /// Repeats requests until the learnt cost is below `most`, because a request looks expensive if
    /// its lane lost its CPU.
    fn teach_less(&self, client: &mut Client, target: &str, most: Duration) {
        let family = "corelane_load_table_lane_seconds";
        let series = format!("{family}{{route=\"{target}\",method=\"GET\"}}");
        self.server.wait_until("cheap", || {
            if target == "/gate" {
                self.notes.gate.add_permits(1);
            }
            assert_eq!(client.get(target).status, 200);
            self.metric(&series) < most.as_secs_f64()
        });
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.notes.begun.lock().expect("no panic")
    }

    /// A connection that the lane has already served once.
    fn known(&self) -> Client {
        let mut client = self.server.connect();
        assert_eq!(client.get("/brief").status, 200);
        client
    }

    /// Sends the requests while a handler blocks the lane, then releases it.
    fn send_while_blocked(&self, targets: &[&str]) {
        let mut blocker = self.known();
        let mut clients: Vec<Client> = targets.iter().map(|_| self.known()).collect();
        self.begun().clear();
        blocker.send_get("/block");
        self.blocked.recv_timeout(PATIENCE).expect("the lane is held");
        for (client, target) in clients.iter_mut().zip(targets) {
            client.send_get(target);
        }
        self.release.send(()).expect("the handler waits");
        for client in &mut clients {
            assert_eq!(client.read_answer().status, 200);
        }
    }

    fn metric(&self, series: &str) -> f64 {
        self.server.metric(series)
    }

    fn wait_for_queued(&self, requests: u32) {
        let series = "corelane_requests_queued{lane=\"0\"}";
        self.server.wait_until("queued", || self.metric(series) == f64::from(requests));
    }

    fn refused(&self, reason: &str) -> f64 {
        let labels = format!("lane=\"0\",reason=\"{reason}\"");
        self.metric(&format!("corelane_requests_refused_total{{{labels}}}"))
    }
}

#[test]
fn brief_requests_do_not_wait_for_slow_ones_that_came_before() {
    let control = start(Limits::default(), Timeouts::default());
    control.teach();
    control.send_while_blocked(&["/slow?1", "/slow?2", "/slow?3", "/brief?1", "/brief?2"]);
    assert_eq!(
        *control.begun(),
        ["/block", "/brief?1", "/brief?2", "/slow?1", "/slow?2", "/slow?3"]
    );
}

#[test]
fn the_cheapest_of_those_that_wait_starts_first() {
    let control = start(Limits::default(), Timeouts::default());
    control.teach();
    control.send_while_blocked(&["/slow?1", "/medium?1", "/slow?2", "/medium?2"]);
    assert_eq!(*control.begun(), ["/block", "/medium?1", "/medium?2", "/slow?1", "/slow?2"]);
}

#[test]
fn a_slow_request_that_has_waited_starts_before_cheaper_ones_that_came_later() {
    let control = start(Limits { slots: 1, ..Limits::default() }, Timeouts::default());
    control.teach();
    let (mut gate, mut slow, mut medium) = (control.known(), control.known(), control.known());
    gate.send_get("/gate");
    control.server.wait_for_in_flight(1);
    slow.send_get("/slow");
    control.wait_for_queued(1);
    // The handicap is eight times the cost (up to 40 ms), minus the time spent in the queue.
    let since = Instant::now();
    control.server.wait_until("old enough", || since.elapsed() > Duration::from_millis(400));
    medium.send_get("/medium");
    control.wait_for_queued(2);
    control.begun().clear();
    control.notes.gate.add_permits(1);
    for client in [&mut gate, &mut slow, &mut medium] {
        assert_eq!(client.read_answer().status, 200);
    }
    assert_eq!(*control.begun(), ["/slow", "/medium"]);
}

#[test]
fn as_many_requests_run_as_there_are_slots() {
    let control = start(Limits { slots: 2, ..Limits::default() }, Timeouts::default());
    let mut clients: Vec<Client> = (0..4).map(|_| control.server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_get(&format!("/gate?{number}"));
        control.server.wait_for_in_flight(number as u32 + 1);
    }
    control.wait_for_queued(2);
    control.server.wait_until("started", || control.begun().len() == 2);
    assert_eq!(*control.begun(), ["/gate?0", "/gate?1"]);
    control.notes.gate.add_permits(1);
    control.wait_for_queued(1);
    control.server.wait_until("started", || control.begun().len() == 3);
    control.notes.gate.add_permits(3);
    for client in &mut clients {
        assert_eq!(client.read_answer().status, 200);
    }
}

/// Handlers waiting at the gate: current and maximum.
#[derive(Default)]
struct Waiting {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// `/gate` waits for a permit. Responses contain the lane index.
fn gated(
    gate: Arc<Semaphore>,
    waiting: Arc<[Waiting]>,
) -> impl Fn(&Lane) -> TestService + Send + Sync + 'static {
    move |lane| {
        let (gate, waiting, lane) = (Arc::clone(&gate), Arc::clone(&waiting), lane.index());
        BoxCloneSyncService::new(tower::service_fn(move |request: http::Request<_>| {
            let (gate, waiting) = (Arc::clone(&gate), Arc::clone(&waiting));
            async move {
                if request.uri().path() == "/gate" {
                    let now = waiting[lane].now.fetch_add(1, Ordering::SeqCst) + 1;
                    waiting[lane].most.fetch_max(now, Ordering::SeqCst);
                    gate.acquire().await?.forget();
                    waiting[lane].now.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(Response::new(Full::from(lane.to_string())))
            }
        }))
    }
}

#[test]
fn every_lane_runs_as_many_requests_as_it_has_slots() {
    // One lane with many slots, several lanes with one slot each, and several lanes with many
    // slots.
    for (lanes, slots) in [(1, 1024), (2, 1), (2, 1024)] {
        let gate = Arc::new(Semaphore::new(0));
        let waiting: Arc<[Waiting]> = (0..lanes).map(|_| Waiting::default()).collect();
        let builder = builder()
            .lanes(Lanes::Count(lanes))
            .placement(Placement::LeastLoaded)
            .limits(Limits { slots, ..Limits::default() });
        let service = gated(Arc::clone(&gate), Arc::clone(&waiting));
        let server = Running::start(builder, service);

        let mut clients: Vec<Client> = (0..40 * lanes).map(|_| server.connect()).collect();
        let mut sent = vec![0; lanes];
        for client in &mut clients {
            sent[client.get("/").text().parse::<usize>().expect("a lane")] += 1;
        }
        assert!(sent.iter().all(|&sent| sent >= 2), "every lane has its share: {sent:?}");
        clients.iter_mut().for_each(|client| client.send_get("/gate"));

        let running: Vec<usize> = sent.iter().map(|&sent| sent.min(slots)).collect();
        let metric = |name: &str, lane: usize| {
            server.metric(&format!("corelane_requests_{name}{{lane=\"{lane}\"}}")) as usize
        };
        let settled = |lane: usize| {
            metric("in_flight", lane) == sent[lane]
                && metric("queued", lane) == sent[lane] - running[lane]
                && waiting[lane].now.load(Ordering::SeqCst) == running[lane]
        };
        server.wait_until("settled", || (0..lanes).all(settled));

        gate.add_permits(clients.len());
        clients.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
        let most: Vec<_> = waiting.iter().map(|lane| lane.most.load(Ordering::SeqCst)).collect();
        assert_eq!(most, running, "{lanes} lanes of {slots} slots");
    }
}

#[test]
fn a_full_queue_sheds_at_once_and_says_when_to_come_again() {
    let control = start(Limits { slots: 1, queue: 1, ..Limits::default() }, Timeouts::default());
    let (mut running, mut waiting) = (control.server.connect(), control.server.connect());
    running.send_get("/gate");
    control.server.wait_for_in_flight(1);
    waiting.send_get("/brief");
    control.wait_for_queued(1);

    let mut client = control.server.connect();
    let answer = client.get("/brief");
    assert_eq!(answer.status, 503);
    assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok()));
    assert!(answer.text().contains("urn:corelane:problem:overloaded"), "{answer:?}");
    assert_eq!(control.refused("queue_full"), 1.0);

    control.notes.gate.add_permits(1);
    assert_eq!((running.read_answer().status, waiting.read_answer().status), (200, 200));
    assert_eq!(client.get("/brief").status, 200, "the connection is still good");
}

#[test]
fn what_could_not_start_in_time_is_turned_away_before_it_costs_anything() {
    let timeouts = Timeouts { request: Duration::from_secs(2), ..Timeouts::default() };
    let control = start(Limits::default(), timeouts);
    assert_eq!(control.server.get("/long").status, 200);
    let mut blocker = control.known();
    let mut clients: Vec<Client> = (0..60).map(|_| control.known()).collect();
    control.begun().clear();
    blocker.send_get("/block");
    control.blocked.recv_timeout(PATIENCE).expect("the lane is held");
    clients.iter_mut().for_each(|client| client.send_get("/long"));
    control.release.send(()).expect("the handler waits");
    let statuses: Vec<u16> = clients.iter_mut().map(|client| client.read_answer().status).collect();
    // 60 requests that take 50 ms each exceed 2 s.
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    assert!(control.refused("queue_full") >= 1.0);
    let begun = control.begun().iter().filter(|target| *target == "/long").count();
    assert_eq!(begun, statuses.iter().filter(|status| **status == 200).count());
}

#[test]
fn a_client_that_leaves_gives_up_its_place_in_the_queue() {
    let control = start(Limits { slots: 1, ..Limits::default() }, Timeouts::default());
    let (mut running, mut waiting) = (control.server.connect(), control.server.connect());
    running.send_get("/gate");
    control.server.wait_for_in_flight(1);
    waiting.send_get("/brief");
    control.wait_for_queued(1);
    drop(waiting);
    control.wait_for_queued(0);
    control.notes.gate.add_permits(1);
    assert_eq!(running.read_answer().status, 200);
    assert_eq!(*control.begun(), ["/gate"]);
    assert_eq!(running.get("/brief").status, 200, "the slot is free again");
}

#[test]
fn a_route_that_once_took_too_long_is_not_turned_away_for_ever() {
    let request = Duration::from_millis(500);
    let control = start(Limits::default(), Timeouts { request, ..Timeouts::default() });
    let mut client = control.server.connect();
    client.send_get("/block");
    control.blocked.recv_timeout(PATIENCE).expect("the lane is held");
    // Sleeps for longer than the request timeout, like a cold start or a suspended process.
    std::thread::sleep(2 * request);
    control.release.send(()).expect("the handler waits");
    assert_eq!(client.read_answer().status, 200);
    // The load table only knows that the cost exceeds the timeout.
    control.release.send(()).expect("the server runs");
    assert_eq!(client.get("/block").status, 200, "nothing else is to be done");
    assert_eq!(client.get("/brief").status, 200, "of a route that was never seen");
}

#[test]
fn brief_requests_do_not_take_every_slot_that_comes_free() {
    const PIPELINED: usize = 8;
    let control = start(Limits { slots: 1, ..Limits::default() }, Timeouts::default());
    let mut gates = control.server.connect();
    control.teach_less(&mut gates, "/gate", BRIEF);
    control.teach();
    let mut medium = control.known();
    control.begun().clear();
    // Each request occupies the slot but hardly any lane time, and the next starts before the event
    // loop turns.
    gates.send("GET /gate HTTP/1.1\r\nHost: test\r\n\r\n".repeat(PIPELINED));
    control.server.wait_for_in_flight(1);
    medium.send_get("/medium");
    control.wait_for_queued(1);
    let since = Instant::now();
    control.server.wait_until("old enough", || since.elapsed() > Duration::from_millis(400));
    for _ in 0..PIPELINED {
        control.notes.gate.add_permits(1);
        assert_eq!(gates.read_answer().status, 200);
    }
    assert_eq!(medium.read_answer().status, 200);
    assert_eq!(control.begun()[..3], ["/gate", "/medium", "/gate"]);
}

#[test]
fn streams_that_came_together_learn_from_the_first_of_them() {
    const STREAMS: usize = 8;
    let control = start(Limits::default(), Timeouts::default());
    let mut brief = control.server.connect();
    control.teach_less(&mut brief, "/brief", BRIEF);
    control.begun().clear();
    with_worker(async {
        let socket = tokio::net::TcpStream::connect(control.server.address).await;
        let handshake = h2::client::handshake(socket.expect("connect")).await;
        let (client, connection) = handshake.expect("handshake");
        let mut client = client.ready().await.expect("ready");
        // Sends the requests in one write, so that the connection is polled once. The route is
        // unknown, and all other routes are brief.
        let replies: Vec<_> = (0..STREAMS)
            .map(|_| {
                let request = http::Request::get("http://test/block").body(()).expect("a request");
                client.send_request(request, true).expect("sent").0
            })
            .collect();
        tokio::spawn(connection);
        control.blocked.recv_timeout(PATIENCE).expect("the lane is held");
        brief.send_get("/brief");
        let since = Instant::now();
        control.server.wait_until("slow", || since.elapsed() > Duration::from_millis(20));
        (0..STREAMS).for_each(|_| control.release.send(()).expect("the handler waits"));
        for reply in replies {
            assert_eq!(reply.await.expect("a reply").status(), 200);
        }
    });
    assert_eq!(brief.read_answer().status, 200);
    let place = control.begun().iter().position(|target| target == "/brief");
    assert!(place.is_some_and(|place| place <= 2), "{:?}", control.begun());
}
