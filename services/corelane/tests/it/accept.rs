//! No connection is lost when lanes start, fail to start, drain or run out of file descriptors.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::process::ignored_tests;
use crate::support::stuck::Stuck;
use crate::support::{Client, PATIENCE, Running, builder, builder_on, end_of, own_address};
use corelane::{Builder, Drained, Error, Lanes, Phase, Placement};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

const CLEAN: Drained = Drained { cut: 0 };
const PLACEMENTS: [Placement; 2] = [Placement::Hashed, Placement::LeastLoaded];

fn two_lanes(placement: Placement) -> Builder {
    two_lanes_on(Ipv4Addr::LOCALHOST, placement)
}

fn two_lanes_on(address: Ipv4Addr, placement: Placement) -> Builder {
    // Blocked requests would otherwise skew the measured costs.
    builder_on(address).placement(placement).lanes(Lanes::Count(2)).routes(["/block"])
}

#[test]
fn connections_in_every_queue_are_answered_in_a_drain() {
    for placement in PLACEMENTS {
        let stuck = Stuck::default();
        let server = Running::start(two_lanes(placement), stuck.factory());
        let mut blocked = stuck.block_all(&server, 2);
        let mut queued: Vec<_> = (0..100).map(|_| server.connect()).collect();
        queued.iter_mut().for_each(|client| client.send_get("/"));

        server.handle.drain();
        server.wait_for_phase(Phase::Closing);
        assert_eq!(stuck.blocked().len(), 2);
        stuck.release(0);
        stuck.release(1);
        for client in blocked.iter_mut().chain(&mut queued) {
            assert_eq!(client.read_answer().status, 200, "{placement}");
            assert!(client.read_to_close().is_empty(), "{placement}: and told to go");
        }
        assert_eq!(server.join().expect("a clean end"), CLEAN, "{placement}");
    }
}

#[test]
fn an_idle_lane_finishes_what_is_queued_for_a_stuck_one_in_a_drain() {
    let stuck = Stuck::default();
    let server = Running::start(two_lanes(Placement::LeastLoaded), stuck.factory());
    let mut blocked = stuck.block_all(&server, 2);
    let mut queued: Vec<_> = (0..40).map(|_| server.connect()).collect();
    queued.iter_mut().for_each(|client| client.send_get("/"));
    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    stuck.release(1);
    for client in &mut queued {
        assert_eq!(client.read_answer().text(), "1");
    }
    assert_eq!(stuck.blocked(), [0].into());
    stuck.release(0);
    blocked.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[test]
fn connections_made_before_the_lanes_run_are_answered() {
    for placement in PLACEMENTS {
        let server = two_lanes(placement).build().expect("the server starts");
        let address = server.local_addr().expect("an address");
        let handle = server.handle();
        let mut early: Vec<_> = (0..64).map(|_| Client::connect(address)).collect();
        early.iter_mut().for_each(|client| client.send_get("/"));
        let thread = std::thread::spawn(move || server.serve(Stuck::default().factory()));
        for client in &mut early {
            assert_eq!(client.read_answer().status, 200, "{placement}");
        }
        handle.drain();
        assert_eq!(end_of(thread).expect("a clean end"), CLEAN, "{placement}");
    }
}

#[test]
fn connections_made_before_the_lanes_run_survive_a_drain_that_begins_before_them() {
    for placement in PLACEMENTS {
        let server = two_lanes(placement).build().expect("the server starts");
        let address = server.local_addr().expect("an address");
        let mut early: Vec<_> = (0..64).map(|_| Client::connect(address)).collect();
        early.iter_mut().for_each(|client| client.send_get("/"));
        server.handle().drain();
        let good = Stuck::default().factory();
        let closing = server.handle();
        let begun = Instant::now();
        let thread = std::thread::spawn(move || {
            server.serve(move |lane| {
                while closing.phase() < Phase::Closing && begun.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(5));
                }
                good(lane)
            })
        });
        assert_eq!(end_of(thread).expect("a clean end"), CLEAN, "{placement}");
        early.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
    }
}

#[test]
fn a_lane_that_cannot_begin_holds_no_connection_hostage() {
    for placement in PLACEMENTS {
        let server = two_lanes_on(own_address(1), placement).build().expect("the server starts");
        let address = server.local_addr().expect("an address");
        let _handle = server.handle();
        let mut early: Vec<_> = (0..16).map(|_| Client::connect(address)).collect();
        let good = Stuck::default().factory();
        let ended = end_of(std::thread::spawn(move || {
            server.serve(move |lane| {
                assert_ne!(lane.index(), 1, "this lane cannot begin");
                good(lane)
            })
        }));
        assert!(matches!(ended, Err(Error::Factory { lane: 1, .. })), "{placement}: {ended:?}");
        early.iter_mut().for_each(|client| assert!(client.read_to_close().is_empty()));
        assert!(TcpStream::connect(address).is_err(), "{placement}: the port is free");
    }
}

/// False if the connection failed to open. A connection that opens must get a response.
fn ask(address: SocketAddr) -> bool {
    // The handshake came too late, so no connection was lost.
    let Ok(mut socket) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) else {
        return false;
    };
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    socket.write_all(request).expect("written");
    let mut reply = String::new();
    let read = socket.read_to_string(&mut reply);
    assert!(reply.starts_with("HTTP/1.1 200"), "a connection was lost: {read:?}, {reply:?}");
    true
}

#[test]
fn drains_under_load_lose_nothing() {
    for placement in PLACEMENTS {
        for round in 0..20 {
            let server = Running::start(two_lanes(placement), Stuck::default().factory());
            let (address, answered) = (server.address, AtomicUsize::new(0));
            let handle = server.handle.clone();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        loop {
                            match ask(address) {
                                true => drop(answered.fetch_add(1, Ordering::Relaxed)),
                                // Unless the server is draining, it is merely slow.
                                false if handle.phase() == Phase::Serving => {}
                                false => break,
                            }
                        }
                    });
                }
                // Varies the point at which the drain hits a connection.
                let enough = 30 + round;
                server.wait_until("loaded", || answered.load(Ordering::Relaxed) >= enough);
                server.handle.drain();
                assert_eq!(server.join().expect("a clean end"), CLEAN, "{placement}");
            });
        }
    }
}

#[test]
fn too_many_connections_are_refused_in_every_placement() {
    for placement in PLACEMENTS {
        let limits = corelane::Limits { connections: 2, ..Default::default() };
        let server =
            Running::start(two_lanes(placement).limits(limits), Stuck::default().factory());
        let mut kept = [server.connect(), server.connect()];
        kept.iter_mut().for_each(|client| assert_eq!(client.get("/").status, 200));
        let answer = server.get("/");
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{placement}");
        let refused: f64 = (0..2)
            .map(|lane| {
                let name = "corelane_connections_refused_total";
                server.metric(&format!("{name}{{lane=\"{lane}\",reason=\"limit\"}}"))
            })
            .sum();
        assert_eq!(refused, 1.0, "{placement}");
        let [one, _kept] = kept;
        drop(one);
        server.wait_until("served again", || server.get("/").status == 200);
    }
}

const PLACEMENT: &str = "CORELANE_TEST_PLACEMENT";

/// Helper for the other tests: runs a server in its own process until stdin closes.
#[test]
#[ignore = "started by the other tests, as a process"]
fn server_process() {
    let placement = std::env::var(PLACEMENT).expect("a placement");
    let server = builder()
        .placement(placement.parse().expect("a placement"))
        .lanes(Lanes::Count(2))
        .build()
        .expect("the server starts");
    let (address, admin) = (server.local_addr().expect("an address"), server.admin_addr());
    let handle = server.handle();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.stop();
    });
    println!("\nat {address} {}", admin.expect("an address"));
    let _ = server.serve(Stuck::default().factory());
}

/// Killed on drop.
struct Process {
    child: Child,
    address: SocketAddr,
    _output: Lines<BufReader<ChildStdout>>,
    /// Opened early, because new connections may fail later.
    admin: Client,
}

impl Process {
    fn start(placement: Placement) -> Process {
        let mut child = ignored_tests("accept::server_process")
            .env(PLACEMENT, placement.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let addresses = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("at ").map(str::to_owned))
            .expect("the server tells its addresses");
        let (address, admin) = addresses.split_once(' ').expect("two addresses");
        let mut admin = Client::connect(admin.parse().expect("an address"));
        let begun = Instant::now();
        while admin.get("/readyz").status != 200 {
            assert!(begun.elapsed() < PATIENCE, "not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        Process { child, address: address.parse().expect("an address"), _output: lines, admin }
    }

    /// Sets the file limit to `more` above the current number.
    fn limit_files(&self, more: usize) {
        let id = self.child.id();
        let open = std::fs::read_dir(format!("/proc/{id}/fd")).expect("its files").count();
        let pid = Pid::from_raw(id.cast_signed()).expect("a process id");
        let maximum = getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some((open + more) as u64), maximum };
        prlimit(Some(pid), Resource::Nofile, limit).expect("a limit");
    }

    fn accept_errors(&mut self) -> u64 {
        let text = self.admin.get("/metrics").text();
        let lines = text.lines().filter(|line| line.contains("reason=\"accept_error\""));
        lines
            .map(|line| line.rsplit(' ').next().expect("a value").parse::<u64>().expect("a count"))
            .sum()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_out_of_files_rests_and_goes_on_when_files_are_freed() {
    for placement in PLACEMENTS {
        let mut server = Process::start(placement);
        let mut first = Client::connect(server.address);
        assert_eq!(first.get("/").status, 200);
        server.limit_files(6);
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..40).map(|_| Client::connect(server.address)).collect();
        clients.iter_mut().for_each(|client| client.send_get("/"));

        let (mut errors, mut since) = (0, begun);
        while errors < 10 {
            assert!(begun.elapsed() < PATIENCE, "{placement}: {errors} accepts failed");
            let asked = Instant::now();
            errors = server.accept_errors();
            if errors == 0 {
                since = asked;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Two listeners retry every 50 ms. A busy loop would reach 10,000 failures.
        let tries = 2 * (since.elapsed().as_millis() as u64 / 50 + 2);
        assert!(errors <= tries, "{placement}: {errors} accepts failed, expected up to {tries}");
        assert_eq!(first.get("/").status, 200, "{placement}: connections it has are served");

        // Closing a connection after its response frees a descriptor for the next connection.
        std::thread::scope(|scope| {
            for mut client in clients {
                scope.spawn(move || assert_eq!(client.read_answer().status, 200, "{placement}"));
            }
        });
    }
}
