//! A server that has reached its limit of open files.

use std::io::{BufRead, BufReader, Lines, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use corelane::{Lanes, Placement};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::PLACEMENTS;
use crate::support::process::ignored_tests;
use crate::support::stuck::Stuck;
use crate::support::{Client, PATIENCE, builder};

const PLACEMENT: &str = "CORELANE_TEST_PLACEMENT";

/// Not a test by itself: the server of the tests here, in a process of its own that ends with its
/// standard input.
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

/// A server process; it ends when dropped.
struct Process {
    child: Child,
    address: SocketAddr,
    _output: Lines<BufReader<ChildStdout>>,
    /// A connection to the admin port, since no new one may be possible.
    admin: Client,
}

impl Process {
    fn start(placement: Placement) -> Process {
        let mut child = ignored_tests("accept::files::server_process")
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

    /// Allows `more` files than are open now.
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
        // Two listeners at most, each tries again after 50 ms; one that spins tries 10,000 times.
        let tries = 2 * (since.elapsed().as_millis() as u64 / 50 + 2);
        assert!(errors <= tries, "{placement}: {errors} accepts failed, expected up to {tries}");
        assert_eq!(first.get("/").status, 200, "{placement}: connections it has are served");

        // Each that is answered goes, and frees a file for one that waits.
        std::thread::scope(|scope| {
            for mut client in clients {
                scope.spawn(move || assert_eq!(client.read_answer().status, 200, "{placement}"));
            }
        });
    }
}
