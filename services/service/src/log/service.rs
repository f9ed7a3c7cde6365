//! A service's log: its keys, and lines with their request's ID.

use std::io;

use super::{Control, Flush, Format, Level, Log};
use crate::value::{choice, switch, word};

settings! {
    pub(crate) struct Logging {
        "log.level" => log_level: Level = "info", word::<Level>,
            "Log level, optionally with other levels for modules: info,corelane::request=debug";
        "log.format" => log_format: Format = "text", choice(Format::WORDS),
            "Format of log lines on standard error: text or json";
        "log.client" => log_client: bool = "off", switch,
            "Whether the log lines of requests contain the client's address: on or off";
    }
}

/// Starts logging. The level can be changed after that. Dropping [`Flush`] writes the remaining
/// lines. `None` if the program has its own `tracing` subscriber.
pub(crate) fn start(config: &Logging) -> io::Result<Option<(Flush, Control)>> {
    let level = &config.log_level;
    let log = Log {
        level: level.clone(),
        format: config.log_format,
        targets: true,
        context: Some(request),
        route: Some(corelane::route),
        ..Log::default()
    };
    match log.start() {
        Ok((flush, handle)) => {
            corelane::panics_are_logged();
            Ok(Some((flush, Control::new(level.clone(), move |level| handle.set(level)))))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            tracing::info!(
                "the program has a subscriber of its own: log.level and log.format are not used"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn trace_id(trace: &corelane::TraceContext) -> String {
    format!("{:032x}", u128::from_be_bytes(trace.trace_id()))
}

/// The thread's current request, and its trace if the trace is recorded.
fn request() -> Vec<(&'static str, String)> {
    let trace = corelane::trace_context().filter(corelane::TraceContext::is_sampled);
    let trace = trace.as_ref().map(|trace| ("trace_id", trace_id(trace)));
    let request = corelane::request_id().map(|id| ("request_id", id.to_string()));
    request.into_iter().chain(trace).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use corelane::{Incoming, Lanes, Server, Traces};
    use http::{Request, Response};
    use http_body_util::Full;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_line_names_the_request_that_is_handled() {
        let server = Server::builder()
            .bind("127.0.0.1:0".parse().expect("an address"))
            .lanes(Lanes::Count(1))
            .signals(false)
            .request_ids(true)
            .traces(Traces::PassOn)
            .build()
            .expect("it binds");
        let (address, handle) = (server.local_addr().expect("an address"), server.handle());
        let thread = std::thread::spawn(move || {
            server.serve(|_lane| {
                tower::service_fn(|_request: Request<Incoming>| {
                    let body = bytes::Bytes::from(format!("{:?}", request()));
                    std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(body))))
                })
            })
        });
        let mut client = TcpStream::connect(address).expect("connect");
        let head = format!(
            "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX-Request-Id: abc\r\n\
             Traceparent: {PARENT}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).expect("sent");
        let mut reply = String::new();
        client.read_to_string(&mut reply).expect("a reply");
        handle.stop();
        assert!(thread.join().expect("no panic").is_ok());
        let fields = [("request_id", "abc"), ("trace_id", &PARENT[3..35])];
        assert!(reply.ends_with(&format!("{fields:?}")), "{reply}");
        assert_eq!(request(), []);
    }
}
