//! How a log line looks. One that is written while a request is handled names it.

use std::fmt;

use serde::ser::{SerializeMap, Serializer as _};
use tracing::{Event, Subscriber};
use tracing_serde::{AsSerde, SerdeMapVisitor};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// The id of a trace, as everybody writes it.
pub(crate) fn trace_id(trace: &corelane::TraceContext) -> String {
    format!("{:032x}", u128::from_be_bytes(trace.trace_id()))
}

/// The request that this thread works on, and its trace where that is being recorded.
fn current() -> [(&'static str, Option<String>); 2] {
    let trace = corelane::trace_context().filter(corelane::TraceContext::is_sampled);
    [
        ("request_id", corelane::request_id().map(|id| id.to_string())),
        ("trace_id", trace.as_ref().map(trace_id)),
    ]
}

pub(super) enum Lines {
    Text(Format<Full>),
    Json,
}

impl Lines {
    pub(super) fn new(format: LogFormat, ansi: bool) -> Lines {
        match format {
            LogFormat::Text => Lines::Text(Format::default().with_ansi(ansi)),
            LogFormat::Json => Lines::Json,
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let current = current();
        let known = current.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let line = match self {
            Lines::Text(format) => {
                let mut line = String::new();
                format.format_event(context, Writer::new(&mut line), event)?;
                line.truncate(line.trim_end().len());
                known.fold(line, |line, (name, value)| line + " " + name + "=" + value)
            }
            Lines::Json => json(event, known).map_err(|_| fmt::Error)?,
        };
        writeln!(writer, "{line}")
    }
}

/// One object, its fields side by side.
fn json<'a>(
    event: &Event<'_>,
    current: impl Iterator<Item = (&'a str, &'a str)>,
) -> serde_json::Result<String> {
    let mut timestamp = String::new();
    // It writes to a string.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let mut line = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::new(&mut line);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timestamp", &timestamp)?;
    map.serialize_entry("level", &event.metadata().level().as_serde())?;
    let mut fields = SerdeMapVisitor::new(map);
    event.record(&mut fields);
    let mut map = fields.take_serializer()?;
    for (name, value) in current {
        map.serialize_entry(name, value)?;
    }
    map.serialize_entry("target", event.metadata().target())?;
    map.end()?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::{Arc, Mutex};

    use corelane::{Incoming, Lanes, Server, Traces};
    use http::{Request, Response};
    use http_body_util::Full;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    /// What is logged by a handler and by nobody's, in this format.
    fn logged(format: fn() -> Lines) -> String {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let log = move |what: &str| {
            let writer = Arc::clone(&writer);
            let layer = tracing_subscriber::fmt::layer()
                .event_format(format())
                .with_writer(move || Sink(Arc::clone(&writer)));
            let subscriber = tracing_subscriber::registry().with(layer);
            tracing::subscriber::with_default(subscriber, || tracing::info!(n = 1, "{what}"));
        };
        log("from outside");
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
            server.serve(move |_lane| {
                let log = log.clone();
                tower::service_fn(move |_request: Request<Incoming>| {
                    log("from a handler");
                    std::future::ready(Ok::<_, Infallible>(Response::new(
                        Full::<bytes::Bytes>::default(),
                    )))
                })
            })
        });
        let mut client = TcpStream::connect(address).expect("connect");
        let head = format!(
            "GET / HTTP/1.1\r\nHost: t\r\nX-Request-Id: abc\r\nTraceparent: {PARENT}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).expect("sent");
        assert!(client.read(&mut [0; 1024]).expect("a reply") > 0);
        handle.stop();
        assert!(thread.join().expect("no panic").is_ok());
        let lines = lines.lock().expect("no panic");
        String::from_utf8(lines.clone()).expect("text")
    }

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(line)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_json_names_the_request_that_is_handled() {
        let text = logged(|| Lines::new(LogFormat::Json, false));
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let [outside, handler] = &lines[..] else { panic!("{text}") };
        assert_eq!((&outside["message"], &outside["n"]), (&"from outside".into(), &1.into()));
        assert_eq!((outside.get("request_id"), outside.get("trace_id")), (None, None));
        assert_eq!((&handler["request_id"], &handler["level"]), (&"abc".into(), &"INFO".into()));
        assert_eq!(handler["trace_id"], PARENT[3..35]);
        assert!(handler["target"].as_str().is_some_and(|target| target.contains("logging")));
    }

    #[test]
    fn a_line_of_text_does_too() {
        let text = logged(|| Lines::new(LogFormat::Text, false));
        let [outside, handler] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(outside.ends_with("from outside n=1"), "{outside}");
        let named = format!("from a handler n=1 request_id=abc trace_id={}", &PARENT[3..35]);
        assert!(handler.contains(" INFO ") && handler.ends_with(&named), "{handler}");
    }
}
