//! The admin port, checked against `docs/admin.md`.

use std::collections::BTreeSet;

use crate::limits::abuse::connect_from;
use crate::support::{Answer, Client, Handlers, Running, builder};
use corelane::{Lanes, SlowLanes};
use serde_json::Value;

const DOCS: &str = include_str!("../../../../docs/admin.md");
const IDLE: &str = include_str!("../../../../docs/idle-connections.md");

/// Contains HTML special characters.
const MARKUP: &str = "/a&\"b\"/{n}";

fn start() -> Running {
    let builder = builder().routes(["/hello", MARKUP]);
    let server = Running::start(builder, Handlers::new().factory());
    let mut client = server.connect();
    for target in ["/hello", "/hello", "/a&\"b\"/1", "/other"] {
        assert_eq!(client.get(target).status, 200);
    }
    let series =
        "corelane_request_phase_seconds_count{lane=\"0\",route=\"/hello\",phase=\"write\"}";
    server.wait_until("written", || server.admin_get("/metrics").text().contains(series));
    drop(client);
    server.wait_until("closed", || server.metric("corelane_connections{lane=\"0\"}") == 0.0);
    server
}

fn ask(server: &Running, method: &str, target: &str, headers: &str) -> Answer {
    let mut client = Client::connect(server.admin);
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{headers}\r\n"));
    if method == "HEAD" { client.read_head_answer() } else { client.read_answer() }
}

/// Table rows below a heading in the docs, without header rows.
fn documented(heading: &str) -> BTreeSet<String> {
    let section = DOCS.split("\n## ").find(|section| section.starts_with(heading));
    let lines = section.unwrap_or_else(|| panic!("no section {heading}")).lines();
    lines.filter(|line| line.starts_with("| `")).map(str::to_owned).collect()
}

fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, member) in members {
                paths(member, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

#[test]
fn the_docs_list_every_reason_for_a_refusal() {
    let server = Running::start(builder(), Handlers::new().factory());
    let text = server.admin_get("/metrics").text();
    for (heading, what) in
        [("Refused connections", "connections"), ("Refused requests", "requests")]
    {
        let prefix = format!("corelane_{what}_refused_total{{lane=\"0\",reason=\"");
        let shown =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix("\"} 0"));
        let documented = documented(heading);
        let documented: BTreeSet<_> = documented.iter().filter_map(|row| first_name(row)).collect();
        assert_eq!(documented, shown.collect(), "{heading}");
    }
}

#[test]
fn the_docs_list_why_a_connection_wakes_or_moves() {
    let server = Running::start(builder(), Handlers::new().factory());
    let text = server.admin_get("/metrics").text();
    for (what, series) in [("wake", "wakes"), ("move", "moves")] {
        let prefix = format!("corelane_connection_{series}_total{{lane=\"0\",reason=\"");
        let shown =
            text.lines().filter_map(|line| line.strip_prefix(&prefix)?.strip_suffix("\"} 0"));
        let table = IDLE.split(&format!("| `reason` of a {what} |")).nth(1).expect("a table");
        let rows = table.split("\n\n").next().expect("rows").lines().skip(2);
        let documented: BTreeSet<_> = rows.filter_map(first_name).collect();
        assert_eq!(documented, shown.collect(), "{what}");
    }
}

fn first_name(row: &str) -> Option<&str> {
    row.split('`').nth(1)
}

#[test]
fn the_docs_list_every_field_of_lanes() {
    let slow_lanes = SlowLanes { unpinned: true, ..SlowLanes::default() };
    let server = Running::start(builder().slow_lanes(Some(slow_lanes)), Handlers::new().factory());
    assert_eq!(server.get("/hello").status, 200);
    let view: Value = serde_json::from_slice(&server.admin_get("/lanes").body).expect("JSON");
    let mut shown = BTreeSet::new();
    paths(&view, "", &mut shown);
    let documented = documented("Lanes");
    let documented: BTreeSet<_> = documented.iter().filter_map(|row| first_name(row)).collect();
    // No handler is being polled here. The stall tests cover these fields.
    let polling = ["route", "method", "for_ms"].map(|name| format!("lanes[].polling.{name}"));
    shown.remove("lanes[].polling");
    shown.extend(polling);
    assert_eq!(documented, shown.iter().map(String::as_str).collect());
}

#[test]
fn lanes_shows_what_was_asked_of_each() {
    let server = start();
    let view: Value = serde_json::from_slice(&server.admin_get("/lanes").body).expect("JSON");
    assert_eq!((&view["phase"], &view["ready"]), (&"serving".into(), &true.into()));
    assert_eq!(view["limits"]["slots"], 1024);
    assert_eq!((&view["moving"], &view["park_after_ms"]), (&"parked-only".into(), &5000.0.into()));
    assert_eq!(view["timeouts_ms"]["stall"], 1000.0);
    let lane = &view["lanes"][0];
    assert_eq!((&lane["connections"], &lane["connections_parked"]), (&0.into(), &0.into()));
    assert_eq!(lane["totals"]["requests"], 4);
    assert_eq!(lane["totals"]["accepted"], 1);
    let routes = lane["routes"].as_array().expect("rows");
    let hello = routes.iter().find(|row| row["route"] == "/hello").expect("it was asked for");
    assert_eq!((&hello["method"], &hello["observations"]), (&"GET".into(), &2.into()));
    let shares: f64 = routes.iter().filter_map(|row| row["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 0.01, "{shares}");
}

#[test]
fn lanes_is_a_page_for_who_wants_one() {
    let server = start();
    let json = ask(&server, "GET", "/lanes", "Accept: */*\r\n");
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(json.header("vary"), Some("accept"));
    let browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    for (target, headers) in [("/lanes", browser), ("/lanes.html", "")] {
        let page = ask(&server, "GET", target, headers);
        assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")));
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let text = page.text();
        assert!(text.contains("/a&amp;&quot;b&quot;/{n}") && !text.contains("&\"b"), "{text}");
    }
    assert_eq!(ask(&server, "HEAD", "/lanes", "").status, 200);
    assert_eq!(ask(&server, "POST", "/lanes", "").status, 405);
}

fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    let values = page.split(begin.as_str()).skip(1);
    values.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn pages_load_only_files_of_the_admin_port() {
    let server = start();
    for page in ["/", "/lanes.html"] {
        let answer = ask(&server, "GET", page, "");
        let policy = answer.header("content-security-policy").expect("a policy").to_owned();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let text = answer.text();
        assert!(!text.contains("http-equiv") && !text.contains(" style="), "{text}");
        let named = [values(&text, "href"), values(&text, "src")].concat();
        assert!(named.len() >= 4, "{named:?}");
        for target in named.into_iter().filter(|target| !target.starts_with("data:")) {
            // Relative links work behind a path prefix.
            assert!(!target.contains(':') && !target.starts_with('/'), "{target}");
            let target = format!("/{}", target.trim_start_matches("./"));
            let answer = ask(&server, "GET", &target, "");
            assert_eq!(
                (answer.status, answer.header("cache-control")),
                (200, Some("no-store")),
                "{target}"
            );
        }
    }
    assert_eq!(
        ask(&server, "GET", "/style.css", "").header("content-type"),
        Some("text/css; charset=utf-8")
    );
    assert_eq!(ask(&server, "POST", "/live.js", "").status, 405);
}

#[test]
fn the_page_of_lanes_says_what_the_json_says() {
    let slow_lanes = SlowLanes { unpinned: true, ..SlowLanes::default() };
    let builder = builder()
        .lanes(Lanes::Count(2))
        .slow_lanes(Some(slow_lanes))
        .routes(["/hello", "/slow"])
        // Set explicitly, because any handler can look slow on a busy machine.
        .cost("/hello", corelane::Cost::Cheap)
        .cost("/slow", corelane::Cost::Expensive);
    let server = Running::start(builder, Handlers::new().factory());
    let mut client = server.connect();
    for target in ["/hello", "/hello", "/slow"] {
        assert_eq!(client.get(target).status, 200);
    }
    let observed = || {
        let view: Value = serde_json::from_slice(&server.admin_get("/lanes").body).expect("JSON");
        let lanes = view["lanes"].as_array().expect("lanes").clone();
        lanes.iter().flat_map(|lane| lane["routes"].as_array().expect("rows").clone()).count()
    };
    server.wait_until("observed", || observed() == 2);
    let text = server.admin_get("/lanes.html").text();
    assert_eq!(values(&text, "data-chart"), ["0", "1"]);
    let labels = values(&text, "aria-label");
    assert!(
        labels[0].starts_with("Lane 0: busy ") && labels[0].ends_with("% slow lane"),
        "{labels:?}"
    );
    let row = |route: &str| {
        let rows = text.split("<tr ").find(|row| row.contains(route)).map(str::to_owned);
        rows.unwrap_or_else(|| panic!("{route}: {text}"))
    };
    assert!(row("GET /hello").contains("data-total=\"2\"") && row("GET /hello").contains(">lane<"));
    assert!(row("GET /slow").contains(">slow lane<"), "{}", row("GET /slow"));
}

#[test]
fn the_first_request_of_a_connection_knows_when_that_was_accepted() {
    let server = Running::start(builder().routes(["/hello"]), Handlers::new().factory());
    let mut clients = [server.connect(), server.connect(), server.connect()];
    for client in clients.iter_mut().flat_map(|client| [client.get("/hello"), client.get("/hello")])
    {
        assert_eq!(client.status, 200);
    }
    let count = |phase| {
        let labels = format!("{{lane=\"0\",route=\"/hello\",phase=\"{phase}\"}}");
        server.metric(&format!("corelane_request_phase_seconds_count{labels}"))
    };
    assert_eq!((count("accept"), count("queue"), count("handler")), (3.0, 6.0, 6.0));
    server.wait_until("written", || count("write") == 6.0);
}

#[test]
fn every_lane_is_shown() {
    let builder = builder().lanes(Lanes::Count(3));
    let server = Running::start(builder, Handlers::new().factory());
    let view: Value = serde_json::from_slice(&server.admin_get("/lanes").body).expect("JSON");
    let lanes = view["lanes"].as_array().expect("lanes").iter();
    assert_eq!(lanes.map(|lane| lane["lane"].clone()).collect::<Vec<_>>(), [0, 1, 2]);
}

/// New connections replace the oldest silent ones.
#[test]
fn silent_connections_do_not_keep_probes_out() {
    let server = start();
    let silent: Vec<_> = (0..300).map(|_| connect_from([127, 0, 0, 1], server.admin)).collect();
    let probe = |source| connect_from(source, server.admin).get("/healthz").status;
    assert_eq!((probe([127, 0, 0, 2]), probe([127, 0, 0, 1])), (200, 200));
    // The oldest connections were closed first.
    let mut first = silent.into_iter().next().expect("300");
    assert!(first.read_to_close().is_empty());
}
