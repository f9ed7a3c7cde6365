//! Load reports as a load balancer parses them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::support::{
    BoxError, Client, Handlers, Running, TestService, builder,
    worker::{get, http2, with_worker},
};
use corelane::{Incoming, Lane, LoadReports};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;

const NAME: &str = "endpoint-load-metrics";

const KEYS: [&str; 5] = [
    "application_utilization",
    "eps",
    "named_metrics.expected_wait",
    "named_metrics.in_flight",
    "rps_fractional",
];

type Report = BTreeMap<String, f64>;

fn start(form: LoadReports) -> Running {
    Running::start(builder().load_reports(form), Handlers::new().factory())
}

fn parse(value: &str) -> Report {
    let number = |text: &str| text.parse::<f64>().expect("a number");
    if let Some(text) = value.strip_prefix("TEXT ") {
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').expect("key=value");
            (key.to_owned(), number(value))
        };
        return text.split(',').map(pair).collect();
    }
    let json = value.strip_prefix("JSON ").expect("TEXT or JSON");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let mut report = Report::new();
    for (key, value) in json.as_object().expect("an object") {
        match value.as_object() {
            None => drop(report.insert(key.clone(), value.as_f64().expect("a number"))),
            Some(inner) => {
                report.extend(inner.iter().map(|(name, value)| {
                    (format!("{key}.{name}"), value.as_f64().expect("a number"))
                }))
            }
        }
    }
    report
}

/// Repeats requests on one connection until a report satisfies `holds`.
fn report_with(server: &Running, client: &mut Client, holds: impl Fn(&Report) -> bool) -> Report {
    let mut found = None;
    server.wait_until("reported", || {
        found = client.get("/hello").header(NAME).map(parse).filter(&holds);
        found.is_some()
    });
    found.expect("waited for")
}

#[test]
fn both_forms_carry_the_same_keys() {
    for form in [LoadReports::Text, LoadReports::Json] {
        let server = start(form);
        let report = report_with(&server, &mut server.connect(), |_| true);
        assert_eq!(report.keys().collect::<Vec<_>>(), KEYS, "{form}");
        assert!(report["rps_fractional"] > 0.0, "{report:?}");
        assert!((0.02..=1.0).contains(&report["application_utilization"]), "{report:?}");
        assert_eq!(report["eps"], 0.0);
    }
}

#[test]
fn off_is_the_default_and_silent() {
    let server = Running::start(builder(), Handlers::new().factory());
    let mut client = server.connect();
    let begun = Instant::now();
    // A second is enough time for ten reports.
    while begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(client.get("/hello").header(NAME), None);
    }
}

#[test]
fn a_connection_gets_each_report_once() {
    let server = start(LoadReports::Text);
    let mut clients = [server.connect(), server.connect()];
    let (mut replies, mut seen) = (0, [Vec::new(), Vec::new()]);
    let begun = Instant::now();
    server.wait_until("ten reports later", || {
        for (client, seen) in clients.iter_mut().zip(&mut seen) {
            // Pipelines the requests, so that several responses share a report.
            for _ in 0..8 {
                client.send_get("/hello");
            }
            for _ in 0..8 {
                replies += 1;
                seen.extend(client.read_answer().header(NAME).map(str::to_owned));
            }
        }
        seen.iter().all(|reports| reports.len() >= 10)
    });
    // The server creates one report per 100 ms, the first of them immediately. One report may
    // already exist.
    let made = begun.elapsed().as_millis() / 100 + 2;
    for reports in &seen {
        assert!(reports.len() as u128 <= made, "{} of {made}", reports.len());
        assert!(reports.len() * 4 < replies, "{} of {replies}", reports.len());
        let distinct: std::collections::BTreeSet<_> = reports.iter().collect();
        assert_eq!(distinct.len(), reports.len(), "no report comes twice");
    }
}

#[test]
fn an_http2_connection_gets_each_report_once() {
    let server = start(LoadReports::Text);
    with_worker(async {
        let (mut client, _) = http2(&server).await;
        let (mut replies, mut reports) = (0, Vec::new());
        let begun = Instant::now();
        while reports.len() < 5 {
            assert!(begun.elapsed() < crate::support::PATIENCE, "{reports:?}");
            // Sends the requests concurrently, so that several responses share a report.
            let sent = (0..8).map(|_| client.send_request(get("/hello"), true).expect("sent").0);
            for reply in sent.collect::<Vec<_>>() {
                let reply = reply.await.expect("a reply");
                replies += 1;
                reports.extend(reply.headers().get(NAME).cloned());
            }
        }
        let made = begun.elapsed().as_millis() / 100 + 2;
        assert!(reports.len() as u128 <= made && reports.len() < replies, "{made}, {replies}");
        assert_eq!(parse(reports[4].to_str().expect("ASCII")).keys().collect::<Vec<_>>(), KEYS);
    });
}

/// `/spin/N` blocks the lane for N milliseconds.
fn spinner(_lane: &Lane) -> TestService {
    BoxCloneSyncService::new(tower::service_fn(|request: Request<Incoming>| {
        let millis = request.uri().path().strip_prefix("/spin/").and_then(|n| n.parse().ok());
        let until = Instant::now() + Duration::from_millis(millis.unwrap_or(0));
        while Instant::now() < until {}
        async { Ok::<_, BoxError>(Response::new(Full::from("done"))) }
    }))
}

#[test]
fn utilization_follows_the_lane_and_never_leaves_its_floor() {
    let server = Running::start(builder().load_reports(LoadReports::Json), spinner);
    let mut client = server.connect();
    let idle = |report: &Report| report["application_utilization"] == 0.02;
    let busy = |report: &Report| report["application_utilization"] > 0.5;
    let calm = |client: &mut Client| {
        let mut least = f64::MAX;
        server.wait_until("idle", || {
            // Too few requests to make a lane busy, even if the test is delayed.
            std::thread::sleep(Duration::from_secs(1));
            let Some(report) = client.get("/hello").header(NAME).map(parse) else { return false };
            least = least.min(report["application_utilization"]);
            idle(&report)
        });
        assert_eq!(least, 0.02);
    };
    calm(&mut client);
    let mut spinning = server.connect();
    server.wait_until("busy", || {
        spinning.get("/spin/100").header(NAME).is_some_and(|report| busy(&parse(report)))
    });
    calm(&mut client);
}

#[test]
fn a_lane_inside_one_long_call_is_busy() {
    let server = Running::start(builder().load_reports(LoadReports::Text), spinner);
    let mut client = server.connect();
    // After two seconds utilization approaches 1 - e^-2 = 0.86, minus a tenth per 100 ms. The
    // requests are repeated in case the machine was busy. Counting requests only at their end would
    // give 0.1.
    server.wait_until("busy", || {
        client.get("/spin/2000");
        report_with(&server, &mut client, |_| true)["application_utilization"] > 0.3
    });
}

#[test]
fn what_waits_is_expected_to_take_its_time() {
    let server = Running::start(builder().load_reports(LoadReports::Text), spinner);
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    server.wait_until("expected", || {
        for client in &mut clients {
            client.send_get("/spin/20");
        }
        let reports = clients.iter_mut().filter_map(|client| {
            client
                .read_answer()
                .header(NAME)
                .map(|value| parse(value)["named_metrics.expected_wait"])
        });
        // Once the cost is learnt, more than one of four requests waits for 20 ms.
        reports.fold(0.0, f64::max) > 0.025
    });
}

#[test]
fn errors_are_reported_and_requests_in_flight() {
    let handlers = Handlers::new();
    let server = Running::start(builder().load_reports(LoadReports::Text), handlers.factory());
    let mut waiting = server.connect();
    waiting.send_get("/gate");
    let mut client = server.connect();
    report_with(&server, &mut client, |report| report["named_metrics.in_flight"] >= 1.0);
    let mut failing = server.connect();
    server.wait_until("failing", || {
        let answer = failing.get("/error");
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR.as_u16());
        answer.header(NAME).is_some_and(|report| parse(report)["eps"] > 0.0)
    });
    handlers.gate.add_permits(1);
    assert_eq!(waiting.read_answer().text(), "through");
}

#[test]
fn an_idle_server_has_nothing_to_report() {
    let server = start(LoadReports::Text);
    let mut client = server.connect();
    report_with(&server, &mut client, |_| true);
    // Without requests the rate decays from 100 to 0.1 per second in 7 s.
    server.wait_until("silent", || {
        std::thread::sleep(Duration::from_secs(7));
        client.get("/hello").header(NAME).is_none()
    });
}
