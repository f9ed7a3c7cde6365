//! A replica built on the corelane library, whose requests hold their lane for a given time without
//! using CPU. Many of them fit on a small machine, and queues, load reports and probes are real.
//!
//! Lines on standard input change it while it runs. `speed 0.4` slows its virtual CPU to 40%.
//! `times 5 100` makes `/hello` take 5 ms of it and `/work` 100 ms (initially 10 ms each). `fail 1`
//! makes the replica answer with 500 immediately, and `fail 0` stops that. The replica exits when
//! its standard input ends.

mod virtual_cpu;

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::process::exit;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use clap::Parser;
use corelane::{Cost, Incoming, Lane, Lanes, LoadReports, Pin, Server, SlowLanes};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use rustix::thread::set_current_timer_slack;

use crate::virtual_cpu::{Condition, Kind, Used, VirtualCpu};

#[derive(Debug, Parser)]
#[command(about = "A replica whose lanes have virtual CPUs")]
struct Options {
    /// Address to serve.
    #[arg(long)]
    listen: SocketAddr,
    /// Address of the admin port.
    #[arg(long)]
    admin: SocketAddr,
    /// Lanes, each with its own virtual CPU.
    #[arg(long, default_value_t = 1)]
    lanes: usize,
    /// Without slow lanes: `/work` holds its lane.
    #[arg(long)]
    held: bool,
    /// Name in replies.
    #[arg(long)]
    name: HeaderValue,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let condition = Arc::new(Condition::default());
    let server = Server::builder()
        .bind(options.listen)
        .admin(options.admin)
        .lanes(Lanes::Count(options.lanes))
        .pin(Pin::Off)
        .replica(options.name)
        .load_reports(LoadReports::Text)
        .routes(["/hello", "/work"])
        // A virtual CPU uses no real CPU time, so a lane cannot learn from it or give it a share.
        .cost("/hello", Cost::Cheap)
        .cost("/work", Cost::Expensive)
        .slow_lanes((!options.held).then_some(SlowLanes {
            share: 0.01,
            unpinned: true,
            ..SlowLanes::default()
        }))
        .build()?;
    let told = Arc::clone(&condition);
    thread::spawn(move || obey(&told));
    // The replica shuts down gracefully only on a signal. Requests that this interrupts do not
    // matter.
    let used: Vec<Arc<Used>> = (0..options.lanes).map(|_| Arc::default()).collect();
    let _drained = server.serve(move |lane: &Lane| {
        // Sleeps end when they are due instead of up to 50 µs later (prctl(2), PR_SET_TIMERSLACK).
        if let Err(error) = set_current_timer_slack(Some(NonZeroU64::MIN)) {
            eprintln!("virtual-replica: timer slack: {error}");
        }
        let cpu = Rc::new(VirtualCpu::new(
            Arc::clone(&condition),
            Arc::clone(&used[lane.index()]),
            lane.is_slow(),
        ));
        tower::service_fn(move |request: Request<Incoming>| {
            let cpu = Rc::clone(&cpu);
            async move { Ok::<_, Infallible>(answer(&cpu, request.uri().path())) }
        })
    })?;
    Ok(())
}

/// The reference service's replies, but without iterations in `/work`.
fn answer(cpu: &VirtualCpu, path: &str) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    if cpu.fails() {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    }
    let (kind, body) = match path {
        "/hello" => (Kind::Hello, "Hello, World!"),
        _ => (Kind::Work, "0000000000000001\n"),
    };
    // Blocks the lane, as if its CPU were busy.
    cpu.hold(kind);
    *response.body_mut() = Full::from(body);
    response
}

/// Executes the lines on standard input, and exits when standard input ends.
fn obey(condition: &Condition) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if let Err(problem) = condition.change(&line) {
            eprintln!("virtual-replica: {line}: {problem}");
            exit(1);
        }
    }
    exit(0);
}
