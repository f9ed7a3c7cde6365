//! Runs each example as a process: its settings, responses, metrics and drain.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Maximum wait. A test waits this long only if there is a defect.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of an example, which cargo builds before the tests.
fn program(name: &str) -> Command {
    let test = std::env::current_exe().expect("the path of this program");
    let folder = test.ancestors().nth(2).expect("a target folder").join("examples");
    let program = folder.join(name);
    assert!(program.exists(), "{name} is not built: cargo test builds all examples");
    let mut command = Command::new(program);
    command.env_clear();
    command
}

fn output(name: &str, arguments: &[&str]) -> Output {
    program(name).args(arguments).output().expect("it runs")
}

fn place(line: &str, field: &str) -> Option<SocketAddr> {
    let rest = line.split_once(field)?.1.trim_start_matches(['"', ':', '=']);
    rest.split(['"', ' ', ',']).next()?.parse().ok()
}

/// A running example, which is killed when dropped.
struct Running {
    process: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Running {
    fn start(name: &str, arguments: &[&str]) -> Running {
        Running::start_with(name, &[], arguments)
    }

    /// `own` arguments precede the platform's.
    fn start_with(name: &str, own: &[&str], arguments: &[&str]) -> Running {
        let mut command = program(name);
        command.args(own).args([
            "--listen=127.0.0.1:0",
            "--admin.listen=127.0.0.1:0",
            "--log.format=json",
        ]);
        command.args(["--drain.settle=0s", "--replica=here"]).args(arguments);
        let mut process = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut log = BufReader::new(process.stderr.take().expect("a pipe"));
        let found = (&mut log).lines().find_map(|line| {
            let line = line.expect("text");
            Some((place(&line, "address")?, place(&line, "admin")?))
        });
        let (address, admin) = found.unwrap_or_else(|| panic!("{name} ended"));
        Running { process, log, address, admin }
    }

    fn ask(&self, address: SocketAddr, request: &str, headers: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(address).expect("it listens");
        let head = format!("{request} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{headers}\r\n");
        socket.write_all(head.as_bytes()).expect("sent");
        let mut reply = String::new();
        socket.read_to_string(&mut reply).expect("a reply");
        let status = reply.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{reply}")), reply)
    }

    /// Terminates the process as Kubernetes does. Returns its exit code and the rest of its log.
    fn terminate(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it runs");
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("text");
        (self.process.wait().expect("it ends").code(), log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ABC: &str = "ci sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";

#[test]
fn help_check_and_errors_know_the_keys_of_the_service() {
    let help = output("shop", &["--help"]);
    let text = String::from_utf8(help.stdout).expect("text");
    assert!(help.status.success() && text.starts_with("A small shop\n"), "{text}");
    let section = text.split("[shop]:\n").nth(1).expect("a section");
    assert!(section.contains("--shop.greeting") && section.contains("CORELANE_SHOP_ARTICLES"));
    assert!(text.contains("[limits]:\n"), "the platform's keys are there, too");

    let secret = "--shop.api-token=hunter2";
    let check = output("shop", &["--check", "--shop.articles=3", "--lanes=auto", secret]);
    let text = String::from_utf8(check.stdout).expect("text");
    assert!(text.contains("shop.articles = \"3\"  # flag --shop.articles\n"), "{text}");
    assert!(text.contains("lanes = \"auto\"  # flag --lanes, in effect "), "{text}");
    assert!(text.contains("# shop.api_token = (not shown)") && !text.contains("hunter2"), "{text}");

    for (arguments, says) in [
        (&["--shop.greting=x"][..], "--shop.greeting"),
        (
            &["--tls.clients.ca=ca.crt"],
            "tls.clients.ca = \"ca.crt\" needs tls.clients.allow, which is empty",
        ),
        (
            &["--tls.clients.ca=ca.crt", "--tls.key=a.key"],
            "tls.clients.ca = \"ca.crt\" needs tls.certificate, which is empty",
        ),
        (
            &["--tls.clients.allow=a.svc"],
            "tls.clients.allow = \"a.svc\" needs tls.clients.ca, which is empty",
        ),
        (
            &["--tls.clients.allow=spiffe://a/b,10.0.0.1"],
            "(flag --tls.clients.allow): expected values separated by commas, each a URI such as",
        ),
        (&["--shop.articles=0"], "shop.articles = \"0\" (flag --shop.articles): expected a whole"),
        (&["--drain.settle=40s"], "drain.settle"),
    ] {
        for check in [&[][..], &["--check"]] {
            let wrong = output("shop", &[arguments, check].concat());
            let text = String::from_utf8(wrong.stderr).expect("text");
            assert_eq!(wrong.status.code(), Some(64), "{text}");
            assert!(text.starts_with("shop: ") && text.contains(says), "{text}");
        }
    }
    let mut misspelt = program("shop");
    let wrong = misspelt.env("CORELANE_SHOP_ARTICLE", "3").output().expect("it runs");
    let text = String::from_utf8(wrong.stderr).expect("text");
    assert_eq!(wrong.status.code(), Some(64), "{text}");
    assert!(text.contains("did you mean CORELANE_SHOP_ARTICLES?"), "{text}");
}

#[test]
fn a_start_that_fails_is_a_line_of_the_log() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = format!("--listen={}", taken.local_addr().expect("an address"));
    for (format, begin) in [("text", "shop: "), ("json", "{")] {
        let failed = output(
            "shop",
            &[&taken, "--admin.listen=127.0.0.1:0", &format!("--log.format={format}")],
        );
        let text = String::from_utf8(failed.stderr).expect("text");
        assert_eq!(failed.status.code(), Some(1), "{text}");
        let line = text.lines().last().expect("a line");
        assert!(line.starts_with(begin) && line.contains("in use"), "{text}");
        assert!(format == "text" || text.lines().all(|line| line.starts_with('{')), "{text}");
    }
}

#[test]
fn a_service_answers_counts_and_drains() {
    let tokens = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(tokens.path(), ABC).expect("written");
    let tokens = format!("--auth.tokens={}", tokens.path().display());
    let own = ["--shop.greeting=hello", "--shop.api-token=hunter2", &tokens, "--faults=on"];
    let shop = Running::start("shop", &own);

    let (status, reply) = shop.ask(shop.address, "GET /", "");
    assert!(status == 200 && reply.ends_with("hello\n"), "{reply}");
    assert!(
        reply.contains("corelane-replica: here") && reply.contains("x-request-id: "),
        "{reply}"
    );

    let (status, reply) = shop.ask(shop.address, "PUT /orders/7", "");
    assert_eq!(status, 401, "{reply}");
    assert!(reply.contains("application/problem+json"), "{reply}");
    let abc = "Authorization: Bearer abc\r\n";
    assert_eq!(shop.ask(shop.address, "PUT /orders/7", abc).0, 200);
    assert_eq!(shop.ask(shop.address, "PUT /orders/101", abc).0, 404);
    let named = format!("{abc}X-Request-Id: unlucky\r\n");
    assert_eq!(shop.ask(shop.address, "PUT /orders/13", &named).0, 500);

    let fault = r#"{"faults":[{"route":"/","share":1,"error":{"status":418},"expires_in":"1h"}]}"#;
    let head = format!("Content-Length: {}\r\n\r\n{fault}", fault.len());
    let (status, reply) = shop.ask(shop.admin, "PUT /faults", &head);
    assert_eq!(status, 200, "{reply}");
    let (status, reply) = shop.ask(shop.address, "GET /", "");
    assert!(status == 418 && reply.contains("corelane-fault: error"), "{reply}");
    let slow = fault.replace(r#""error":{"status":418}"#, r#""latency":{"fixed":"1ms"}"#);
    let head = format!("Content-Length: {}\r\n\r\n{slow}", slow.len());
    assert_eq!(shop.ask(shop.admin, "PUT /faults", &head).0, 200);
    let (status, reply) = shop.ask(shop.address, "GET /", "");
    assert!(status == 200 && reply.contains("corelane-fault: latency"), "{reply}");

    let (_, metrics) = shop.ask(shop.admin, "GET /metrics", "");
    for series in [
        "shop_orders_total 1\n",
        concat!("corelane_service_info{name=\"shop\",version=\"", env!("CARGO_PKG_VERSION")),
        "corelane_auth_attempts_total{result=\"missing\"} 1\n",
        "corelane_faults_injected_total{route=\"/\",fault=\"latency\"} 1\n",
        "corelane_load_table_observations_total{route=\"/orders/{article}\",method=\"PUT\"} 4\n",
    ] {
        assert!(metrics.contains(series), "{series} in {metrics}");
    }
    let (_, config) = shop.ask(shop.admin, "GET /config", "");
    assert!(config.contains("shop.greeting = \"hello\"  # flag --shop.greeting\n"), "{config}");
    assert!(
        config.contains("# shop.api_token = (not shown)  # flag --shop.api-token\n"),
        "{config}"
    );
    assert!(config.contains("\nauth.tokens = \""), "the path of a file is no secret: {config}");
    let (_, index) = shop.ask(shop.admin, "GET /", "");
    assert!(
        ["/config", "/log-level", "/faults"].iter().all(|page| index.contains(page)),
        "{index}"
    );

    let (code, log) = shop.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("drain"), "{log}");
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let [panic] = lines.iter().filter(|line| line["message"] == "panicked").collect::<Vec<_>>()[..]
    else {
        panic!("one line: {log}")
    };
    assert!(panic["panic"].as_str().is_some_and(|text| text.contains("nobody buys this one")));
    assert!(panic["place"].as_str().is_some_and(|place| place.contains("shop.rs:")), "{panic}");
    assert_eq!(
        (&panic["route"], &panic["request_id"]),
        (&"/orders/{article}".into(), &"unlucky".into())
    );
    assert!(panic["backtrace"].as_str().is_none(), "{panic}");
    assert_eq!(log.matches("a handler panicked").count(), 0, "{log}");
    assert!(!(log + &config).contains("hunter2"));
}

#[test]
fn metrics_of_the_service_are_pushed_too() {
    let collector = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = collector.local_addr().expect("an address");
    let endpoint = format!("--otlp.metrics-endpoint=http://{address}");
    let shop = Running::start("shop", &[&endpoint]);
    let received = std::thread::spawn(move || {
        let (mut socket, _) = collector.accept().expect("a request");
        let (mut request, mut part) = (Vec::new(), [0; 65_536]);
        // The last request is sent when the service exits. The exit closes the connection.
        while !request.windows(17).any(|text| text == b"shop_orders_total") {
            match socket.read(&mut part).expect("read") {
                0 => break,
                length => request.extend(&part[..length]),
            }
        }
        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        request
    });
    // After the first response, a signal starts the drain.
    assert_eq!(shop.ask(shop.address, "GET /", "").0, 200);
    assert_eq!(shop.terminate().0, Some(0));
    let request = String::from_utf8_lossy(&received.join().expect("no panic")).into_owned();
    assert!(request.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("shop_orders_total"), "{request}");
}

/// Tasks of its own runtime and tasks started before the lanes keep running, and the service
/// responds.
#[test]
fn a_program_with_a_runtime_a_log_and_flags_of_its_own_is_a_service() {
    let mut command = program("tokio_main");
    // The program does not accept `--help`, and other arguments do not matter.
    command.args(["--step=2"]).env("CORELANE_PRINT_SCHEMA", "1").env("CORELANE_NO_SUCH_KEY", "1");
    let schema = String::from_utf8(command.output().expect("it ends").stdout).expect("text");
    assert!(schema.contains("Environment: CORELANE_ADMIN_LISTEN."), "{schema}");

    let own = ["--step=2", "--"];
    let running = Running::start_with("tokio_main", &own, &[]);
    let ticks = || -> [u64; 2] {
        let (status, reply) = running.ask(running.address, "GET /", "");
        assert_eq!(status, 200, "{reply}");
        let numbers = reply.lines().last().map(|line| line.split(' ').map(str::parse));
        let numbers: Result<Vec<_>, _> = numbers.expect("a line").collect();
        numbers.expect("numbers").try_into().expect("two")
    };
    let (first, begun) = (ticks(), Instant::now());
    let later = loop {
        let now = ticks();
        if (0..2).all(|at| now[at] != first[at]) {
            break now;
        }
        assert!(begun.elapsed() < PATIENCE, "not both tasks run: {first:?}, {now:?}");
    };
    assert_eq!(later[0] % 2, 0, "its own flag is read");
    let (status, reply) = running.ask(running.admin, "GET /log-level", "");
    assert_eq!(status, 404, "the level of its own log is not ours: {reply}");
    let (code, log) = running.terminate();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("drain: closing"), "its own log has our lines: {log}");
    let (_, count) = log.rsplit_once("the last count count=").expect("work after the drain");
    assert!(count.trim().parse::<u64>().is_ok_and(|count| count >= later[1]), "{log}");

    let check = program("tokio_main").env("PORT", "8123").args(["--", "--check"]).output();
    let text = String::from_utf8(check.expect("it runs").stdout).expect("text");
    assert!(text.contains("listen = \"127.0.0.1:8123\"  # default\n"), "{text}");
}
