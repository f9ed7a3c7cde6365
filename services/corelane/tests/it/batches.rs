//! Batched responses within one turn of the event loop.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corelane::{Incoming, Lane};
use http::{Request, Response};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;

use crate::support::{Client, PATIENCE, Running, TestService, builder};

/// Body size of `/long`, just small enough for batching.
const LONG: usize = 3500;

/// A handler time that is longer than responses may wait.
const EXPENSIVE: Duration = Duration::from_millis(5);

/// A server whose `/block` route holds the lane and whose other routes echo the query.
struct Held {
    server: Running,
    blocker: Client,
    blocked: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    fn start() -> Held {
        let (blocked_in, blocked) = channel();
        let (release, release_out) = channel();
        let release_out = Arc::new(Mutex::new(release_out));
        let server = Running::start(builder().routes(["/block"]), move |_lane: &Lane| {
            let (blocked, release) = (blocked_in.clone(), Arc::clone(&release_out));
            let answer = move |request: Request<Incoming>| {
                let (blocked, release) = (blocked.clone(), Arc::clone(&release));
                async move {
                    if request.uri().path() == "/block" {
                        blocked.send(())?;
                        let release = release.lock().map_err(|error| error.to_string())?;
                        release.recv_timeout(PATIENCE)?;
                    }
                    let text = request.uri().query().unwrap_or_default();
                    let length = if request.uri().path() == "/long" { LONG } else { 0 };
                    Ok(Response::new(Full::from(format!("{text:.<length$}"))))
                }
            };
            let service: TestService = BoxCloneSyncService::new(tower::service_fn(answer));
            service
        });
        let blocker = server.connect();
        Held { server, blocker, blocked, release }
    }

    /// Opens connections that the lane has already served once.
    fn known(&self, number: usize) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..number).map(|_| self.server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").status, 200);
        }
        clients
    }

    fn teach(&mut self) {
        let learned = "corelane_load_table_lane_seconds{route=\"/block\",method=\"GET\"}";
        loop {
            self.meanwhile(|| std::thread::sleep(EXPENSIVE));
            if self.server.metric(learned) > EXPENSIVE.as_secs_f64() / 2.0 {
                break;
            }
        }
    }

    /// Runs `act` while a handler blocks the lane.
    fn meanwhile(&mut self, act: impl FnOnce()) {
        self.blocker.send_get("/block");
        self.blocked.recv_timeout(PATIENCE).expect("the lane is held");
        act();
        self.release.send(()).expect("the handler waits");
        assert_eq!(self.blocker.read_answer().status, 200);
    }
}

#[test]
fn each_connection_of_a_turn_gets_its_own_replies() {
    let mut held = Held::start();
    for number in [2, 5, 6, 40, 150] {
        let mut clients = held.known(number);
        for round in 0..5 {
            held.meanwhile(|| {
                for (index, client) in clients.iter_mut().enumerate() {
                    client.send_get(&format!("/?{round}-{index}"));
                    if index % 7 == 0 {
                        client.send_get(&format!("/long?{round}-{index}"));
                    }
                }
            });
            for (index, client) in clients.iter_mut().enumerate() {
                let text = format!("{round}-{index}");
                assert_eq!(client.read_answer().text(), text);
                if index % 7 == 0 {
                    assert_eq!(client.read_answer().text(), format!("{text:.<LONG$}"));
                }
            }
        }
    }
}

/// The kernel takes part of the response at first, and the rest once the client reads.
#[test]
fn a_client_that_reads_late_gets_every_reply_of_its_turns() {
    const ROUNDS: usize = 2500;
    let mut held = Held::start();
    let mut late = held.known(4);
    for client in &late {
        // Nagle's algorithm would merge the requests.
        client.socket.set_nodelay(true).expect("no delay");
    }
    let mut others = held.known(12);
    for round in 0..ROUNDS {
        held.meanwhile(|| {
            others.iter_mut().for_each(|client| client.send_get(&format!("/?{round}")));
            late.iter_mut().for_each(|client| client.send_get(&format!("/long?{round}")));
        });
        for client in &mut others {
            assert_eq!(client.read_answer().text(), round.to_string());
        }
    }
    for client in &mut late {
        for round in 0..ROUNDS {
            assert_eq!(client.read_answer().text(), format!("{round:.<LONG$}"));
        }
    }
    held.server.wait_for_in_flight(0);
}

#[test]
fn a_client_that_closes_its_side_gets_its_reply() {
    let mut held = Held::start();
    let mut clients = held.known(20);
    held.meanwhile(|| {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send_get(&format!("/?{index}"));
            client.socket.shutdown(std::net::Shutdown::Write).expect("shut down");
        }
    });
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_answer().text(), index.to_string());
        assert!(client.read_to_close().is_empty());
    }
}

#[test]
fn replies_of_a_turn_do_not_wait_for_an_expensive_handler() {
    let mut held = Held::start();
    held.teach();
    let mut clients = held.known(20);
    let mut second = held.known(1).remove(0);
    held.meanwhile(|| {
        clients[..10].iter_mut().for_each(|client| client.send_get("/?before"));
        second.send_get("/block");
        clients[10..].iter_mut().for_each(|client| client.send_get("/?after"));
    });
    // The second hold comes from a route known to be expensive.
    held.blocked.recv_timeout(PATIENCE).expect("the lane is held");
    for client in &mut clients {
        assert_eq!(client.read_answer().status, 200);
    }
    held.release.send(()).expect("the handler waits");
    assert_eq!(second.read_answer().status, 200);
}
