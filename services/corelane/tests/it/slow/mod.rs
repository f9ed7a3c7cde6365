//! Requests on slow lanes.

mod replies;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use corelane::{Builder, Cost, Error, Incoming, Lane, Lanes, Phase, Pin, SlowLanes};
use http::{HeaderValue, Request, Response};
use tower::util::BoxCloneSyncService;

use crate::support::{Answer, Client, PATIENCE, Running, builder};

type SlowService = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

/// Handlers that block their thread: `/hold` and `/keep` until released, `/burn/{micros}` with CPU
/// time, `/turns` until released but cooperatively. Responses name the thread, e.g. `lane-0` or
/// `slow-0`.
#[derive(Clone, Default)]
struct Holding {
    go: Arc<AtomicBool>,
    held: Arc<Mutex<BTreeSet<String>>>,
}

/// Burns this much CPU time, regardless of preemption.
fn burn(micros: u64) {
    let cpu = || {
        let now =
            nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
        Duration::from(now)
    };
    let begun = cpu();
    while cpu() - begun < Duration::from_micros(micros) {}
}

impl Holding {
    fn factory(&self) -> impl Fn(&Lane) -> SlowService + Send + Sync + 'static + use<> {
        let holding = self.clone();
        move |lane| {
            let name = format!("{}-{}", if lane.is_slow() { "slow" } else { "lane" }, lane.index());
            let holding = holding.clone();
            BoxCloneSyncService::new(tower::service_fn(move |request: Request<Incoming>| {
                let (holding, name) = (holding.clone(), name.clone());
                async move {
                    holding.work(request.uri().path(), &name).await;
                    Ok(Response::new(Body::from(name)))
                }
            }))
        }
    }

    async fn work(&self, path: &str, name: &str) {
        let late = Instant::now() + PATIENCE;
        let goes = || self.go.load(Ordering::SeqCst) || Instant::now() > late;
        if ["/hold", "/keep", "/turns"].contains(&path) {
            self.held.lock().expect("no panic").insert(name.to_owned());
        }
        match path {
            "/hold" | "/keep" => while !goes() {},
            "/turns" => {
                while !goes() {
                    corelane::turn().await;
                }
            }
            _ => burn(
                path.strip_prefix("/burn/").map_or(0, |micros| micros.parse().expect("a number")),
            ),
        }
    }

    fn held(&self) -> BTreeSet<String> {
        self.held.lock().expect("no panic").clone()
    }

    fn let_go(&self) {
        self.go.store(true, Ordering::SeqCst);
    }
}

/// Enables slow lanes for unpinned lanes as well.
const ON: SlowLanes = SlowLanes { bound: Duration::from_micros(500), share: 0.15, unpinned: true };

fn settings() -> Builder {
    let builder = builder().slow_lanes(Some(ON));
    let routes = ["/", "/hold", "/keep", "/turns", "/burn/{micros}"];
    builder.routes(routes).cost("/hold", Cost::Expensive).cost("/keep", Cost::Cheap)
}

fn ask(client: &mut Client, target: &str) -> String {
    let Answer { status, body, .. } = client.get(target);
    assert_eq!(status, 200, "{target}");
    String::from_utf8(body).expect("text")
}

#[test]
fn an_expensive_handler_does_not_delay_cheap_requests() {
    let holding = Holding::default();
    // Set explicitly, because any handler can look slow on a busy machine.
    let server = Running::start(settings().cost("/", Cost::Cheap), holding.factory());
    let mut expensive = server.connect();
    expensive.send_get("/hold");
    server.wait_until("held", || holding.held().contains("slow-0"));
    let mut cheap = server.connect();
    for _ in 0..100 {
        assert_eq!(ask(&mut cheap, "/"), "lane-0");
    }
    assert_eq!(server.metric("corelane_slow_requests_running{lane=\"0\"}"), 1.0);
    holding.let_go();
    assert_eq!(expensive.read_answer().text(), "slow-0");
    server.wait_for_metric("corelane_slow_requests_running{lane=\"0\"}", 0.0);
    assert_eq!(server.metric("corelane_slow_requests_total{lane=\"0\"}"), 1.0);
}

#[test]
fn without_slow_lanes_nothing_is_handed_over() {
    let holding = Holding::default();
    holding.let_go();
    let server = Running::start(settings().slow_lanes(None), holding.factory());
    assert_eq!(ask(&mut server.connect(), "/hold"), "lane-0");
    assert!(!server.admin_get("/metrics").text().contains("corelane_slow_lane_info"));
}

#[test]
fn a_lane_learns_what_is_expensive_and_that_it_no_longer_is() {
    let server = Running::start(settings(), Holding::default().factory());
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/burn/3000"), "lane-0", "nothing is known");
    assert_eq!(ask(&mut client, "/burn/3000"), "slow-0");
    assert_eq!(ask(&mut client, "/"), "lane-0", "of another route");
    let cheap = (0..5000).position(|_| ask(&mut client, "/burn/0") == "lane-0");
    assert!(cheap.is_some_and(|n| n > 100), "after some cheap ones: {cheap:?}");
}

#[test]
fn a_route_is_decided_by_its_tail() {
    let server = Running::start(settings(), Holding::default().factory());
    let mut client = server.connect();
    for _ in 0..10 {
        (0..19).for_each(|_| drop(ask(&mut client, "/burn/0")));
        ask(&mut client, "/burn/3000");
    }
    assert_eq!(ask(&mut client, "/burn/0"), "slow-0", "one in twenty is expensive");
}

#[test]
fn the_service_may_say_what_a_route_costs() {
    let builder = settings().cost("/burn/{micros}", Cost::Cheap);
    // This route is not in the settings, so the lane knows its cost only from the builder.
    let builder = builder.cost("/report/{id}", Cost::Expensive);
    let server = Running::start(builder, Holding::default().factory());
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "/burn/3000"), "lane-0");
        assert_eq!(ask(&mut client, "/report/7"), "slow-0");
    }
}

#[test]
fn the_first_of_a_kind_runs_on_the_slow_lane_once_there_is_traffic_to_protect() {
    let server = Running::start(settings(), Holding::default().factory());
    let mut client = server.connect();
    (0..1000).for_each(|_| drop(ask(&mut client, "/")));
    assert_eq!(ask(&mut client, "/burn/0"), "slow-0");
    assert_eq!(ask(&mut client, "/burn/0"), "lane-0", "it was cheap");
}

#[test]
fn a_handler_that_takes_turns_stays_on_its_lane_and_delays_nobody() {
    let holding = Holding::default();
    let server = Running::start(settings(), holding.factory());
    let (mut first, mut cheap) = (server.connect(), server.connect());
    first.send_get("/turns");
    server.wait_until("held", || holding.held().contains("lane-0"));
    for _ in 0..10 {
        assert_eq!(ask(&mut cheap, "/"), "lane-0");
    }
    holding.let_go();
    assert_eq!(first.read_answer().text(), "lane-0");
}

/// Floods lane 0 with cheap requests until dropped.
struct Flood(Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>);

impl Flood {
    fn start(server: &Running) -> Flood {
        let ends = Arc::new(AtomicBool::new(false));
        let clients = (0..4).map(|_| {
            let (mut client, ends) = (server.connect(), Arc::clone(&ends));
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    assert_eq!(ask(&mut client, "/burn/1000"), "lane-0");
                }
            })
        });
        Flood(Arc::clone(&ends), clients.collect())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }
}

#[test]
fn a_busy_lane_gives_its_slow_lane_a_share() {
    let slow_lanes = SlowLanes { share: 0.3, ..SlowLanes::default() };
    let builder = settings().pin(Pin::On).slow_lanes(Some(slow_lanes));
    let builder = builder.cost("/burn/{micros}", Cost::Cheap).cost("/work/{n}", Cost::Expensive);
    let server = Running::start(builder, |lane: &Lane| {
        let name = if lane.is_slow() { "slow-0" } else { "lane-0" };
        tower::service_fn(move |request: Request<Incoming>| async move {
            burn(if request.uri().path() == "/work/1" { 5000 } else { 1000 });
            Ok::<_, Infallible>(Response::new(Body::from(name)))
        })
    });
    let flood = Flood::start(&server);
    server.wait_until("busy", || server.metric("corelane_requests_queued{lane=\"0\"}") > 0.0);
    let mut expensive = server.connect();
    server.wait_until("yielded", || {
        assert_eq!(ask(&mut expensive, "/work/1"), "slow-0");
        server.metric("corelane_slow_yielded_seconds_total{lane=\"0\"}") > 0.0
    });
    drop(flood);
}

#[test]
fn what_waits_for_a_slow_lane_is_taken_by_an_idle_one() {
    let holding = Holding::default();
    let builder = settings().lanes(Lanes::Count(2)).replica(HeaderValue::from_static("r"));
    let server = Running::start(builder, holding.factory());
    let (own, mut clients) = of_one_lane(&server, 2);
    clients[0].send_get("/hold");
    server.wait_until("held", || holding.held().contains(&format!("slow-{own}")));
    clients[1].send_get("/hold");
    server.wait_until("stolen", || holding.held().contains(&format!("slow-{}", 1 - own)));
    assert_eq!(
        server.metric(&format!("corelane_slow_requests_stolen_total{{lane=\"{}\"}}", 1 - own)),
        1.0
    );
    holding.let_go();
    for client in &mut clients {
        let answer = client.read_answer();
        let lane = own.to_string();
        assert_eq!(answer.header("corelane-lane"), Some(&*lane), "of the connection");
    }
}

/// Opens connections until this many are on one lane, and returns that lane.
fn of_one_lane(server: &Running, count: usize) -> (usize, Vec<Client>) {
    let mut by_lane: [Vec<Client>; 2] = Default::default();
    loop {
        let mut client = server.connect();
        let answer = client.get("/");
        let lane: usize =
            answer.header("corelane-lane").expect("a lane").parse().expect("a number");
        by_lane[lane].push(client);
        if by_lane[lane].len() == count {
            return (lane, std::mem::take(&mut by_lane[lane]));
        }
    }
}

#[test]
fn what_waits_for_a_lane_is_taken_by_an_idle_one() {
    let holding = Holding::default();
    let builder = settings().lanes(Lanes::Count(2)).replica(HeaderValue::from_static("r"));
    // These requests are neither brief nor slow. hyper's connections are never lent.
    let builder = builder.cost("/burn/{micros}", Cost::Cheap).plain_requests(false);
    let server = Running::start(builder, holding.factory());
    let (own, mut clients) = of_one_lane(&server, 21);
    let other = format!("slow-{}", 1 - own);
    let mut holder = clients.pop().expect("more than one");
    clients.iter_mut().for_each(|client| assert_ne!(ask(client, "/burn/300"), other));
    holder.send_get("/keep");
    server.wait_until("held", || holding.held().contains(&format!("lane-{own}")));
    clients.iter_mut().for_each(|client| client.send_get("/burn/300"));
    holding.let_go();
    assert_eq!(holder.read_answer().text(), format!("lane-{own}"));
    let mut moved = 0;
    for client in &mut clients {
        let answer = client.read_answer();
        let lane = own.to_string();
        assert_eq!(answer.header("corelane-lane"), Some(&*lane), "of the connection");
        moved += usize::from(answer.text() == other);
    }
    assert!((1..20).contains(&moved), "{moved}");
    let stolen = format!("corelane_slow_requests_stolen_total{{lane=\"{}\"}}", 1 - own);
    assert_eq!(server.metric(&stolen), moved as f64);
}

#[test]
fn what_comes_for_a_lane_that_is_held_is_served_by_an_idle_one() {
    let holding = Holding::default();
    let builder = settings().lanes(Lanes::Count(2)).replica(HeaderValue::from_static("r"));
    let server = Running::start(builder.cost("/", Cost::Cheap), holding.factory());
    let (own, mut clients) = of_one_lane(&server, 6);
    let (own, other) = (format!("lane-{own}"), format!("lane-{}", 1 - own));
    let gone = clients.pop();
    let [holder, rest @ ..] = &mut clients[..] else { unreachable!() };
    holder.send_get("/keep");
    server.wait_until("held", || holding.held().contains(&own));
    for client in &mut *rest {
        assert_eq!(ask(client, "/"), other);
        // This request works whether or not the connection has been returned.
        assert_eq!(ask(client, "/"), other);
    }
    let [pipelined, halved, last, _] = rest else { unreachable!() };
    pipelined.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    (0..2).for_each(|_| assert_eq!(pipelined.read_answer().text(), other));
    halved.send(b"GET / HTT");
    last.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    let connections = format!("corelane_connections{{lane=\"{}\"}}", &own[5..]);
    let before = server.metric(&connections);
    drop(gone);
    holding.let_go();
    assert_eq!(holder.read_answer().text(), own);
    halved.send(b"P/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(halved.read_answer().status, 200);
    assert_eq!(last.read_answer().status, 200);
    server.wait_for_metric(&connections, before - 2.0);
    for client in [holder, pipelined, halved] {
        assert_eq!(ask(client, "/"), own, "of the connection");
    }
    // Every connection is lent at least once. If a client is quick, its connection may still be on
    // loan.
    let lent = format!("corelane_connections_lent_total{{lane=\"{}\"}}", &own[5..]);
    assert!(server.metric(&lent) >= 4.0);
}

#[test]
fn a_drain_waits_for_requests_on_slow_lanes_of_other_lanes() {
    let holding = Holding::default();
    let builder = settings().lanes(Lanes::Count(2)).replica(HeaderValue::from_static("r"));
    let server = Running::start(builder.cost("/turns", Cost::Expensive), holding.factory());
    let (own, mut clients) = of_one_lane(&server, 2);
    // Blocks the slow lane, so only turns could start the second request.
    clients[0].send_get("/hold");
    server.wait_until("held", || holding.held().contains(&format!("slow-{own}")));
    clients[1].send_get("/turns");
    server.wait_until("stolen", || holding.held().contains(&format!("slow-{}", 1 - own)));
    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    // Gives the other, empty lane time to exit.
    (0..50).for_each(|_| drop(server.admin_get("/metrics")));
    holding.let_go();
    for client in &mut clients {
        assert_eq!(client.read_answer().status, 200);
    }
}

#[test]
fn a_slow_lane_without_a_service_is_an_error_of_the_start() {
    let server = settings().build().expect("it binds");
    let failed = server.try_serve(|lane| async move {
        match lane.is_slow() {
            false => Ok(Holding::default().factory()(&lane)),
            true => Err(std::io::Error::other("no more connections")),
        }
    });
    let error = failed.expect_err("no service");
    assert!(matches!(&error, Error::Factory { lane: 0, .. }), "{error:?}");
}

#[test]
fn each_lane_and_slow_lane_has_an_instance() {
    for (slow_lanes, instances) in [(None, 2), (Some(SlowLanes::default()), 2), (Some(ON), 4)] {
        let made = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&made);
        let builder = builder().lanes(Lanes::Count(2)).pin(Pin::Off).slow_lanes(slow_lanes);
        let server = Running::start(builder, move |lane: &Lane| {
            noted.lock().expect("no panic").push((lane.index(), lane.is_slow()));
            assert_eq!((lane.lanes(), lane.instances()), (2, instances));
            Holding::default().factory()(lane)
        });
        assert_eq!(server.get("/").status, 200);
        let made: BTreeSet<_> = made.lock().expect("no panic").drain(..).collect();
        assert_eq!(made.len(), instances);
    }
}

#[test]
fn settings_out_of_bounds_are_errors() {
    for wrong in [
        SlowLanes { share: 0.6, ..SlowLanes::default() },
        SlowLanes { share: f64::NAN, ..SlowLanes::default() },
        SlowLanes { bound: Duration::ZERO, ..SlowLanes::default() },
    ] {
        let error = builder().slow_lanes(Some(wrong)).validate().expect_err("out of bounds");
        assert!(error.to_string().starts_with("slow_lanes."), "{error}");
    }
    assert!(builder().cost("/{", Cost::Expensive).validate().is_err());
}

#[test]
fn the_admin_port_shows_slow_lanes_and_what_they_serve() {
    let holding = Holding::default();
    holding.let_go();
    let server = Running::start(settings(), holding.factory());
    ask(&mut server.connect(), "/hold");
    server.wait_for_metric("corelane_slow_requests_running{lane=\"0\"}", 0.0);
    let view: serde_json::Value =
        serde_json::from_slice(&server.admin_get("/lanes").body).expect("JSON");
    let lane = &view["lanes"][0];
    assert_eq!((&lane["slow"]["requests"], &lane["slow"]["waiting"]), (&1.into(), &0.into()));
    assert_eq!(
        (&lane["routes"][0]["route"], &lane["routes"][0]["slow"]),
        (&"/hold".into(), &true.into())
    );
    assert!(
        ["idle", "nice", "normal"].contains(&lane["slow"]["priority"].as_str().expect("a word"))
    );
}
