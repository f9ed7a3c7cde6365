//! Log line formats.

use std::fmt;

use serde::ser::{SerializeMap, Serializer as _};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_serde::{AsSerde, SerdeMapVisitor};
use tracing_subscriber::fmt::format::{Format as Pattern, Full, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::Format;

/// Adds fields about the current work of the logging thread, such as a request ID.
pub type Context = fn() -> Vec<(&'static str, String)>;

pub(super) struct Lines {
    pattern: Pattern<Full>,
    format: Format,
    targets: bool,
    context: Option<Context>,
}

impl Lines {
    pub(super) fn new(
        format: Format,
        targets: bool,
        ansi: bool,
        context: Option<Context>,
    ) -> Lines {
        let pattern = Pattern::default().with_ansi(ansi).with_target(targets);
        Lines { pattern, format, targets, context }
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
        let fields = self.context.map(|fields| fields()).unwrap_or_default();
        let line = match self.format {
            Format::Text => {
                let mut line = String::new();
                self.pattern.format_event(context, Writer::new(&mut line), event)?;
                line.truncate(line.trim_end().len());
                fields.iter().fold(line, |line, (name, value)| line + " " + name + "=" + value)
            }
            Format::Json => {
                let spans = spans(context);
                self.json(event, &spans, &fields).map_err(|_| fmt::Error)?
            }
        };
        writeln!(writer, "{line}")
    }
}

impl Lines {
    /// Writes one object, with all its fields at the top level.
    fn json(
        &self,
        event: &Event<'_>,
        spans: &str,
        fields: &[(&str, String)],
    ) -> serde_json::Result<String> {
        let mut timestamp = String::new();
        // Writing to a string cannot fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        // For a record of the `log` crate, this is the record's metadata, because the event itself
        // has the target and fields of the bridge.
        let record = event.normalized_metadata();
        let metadata = record.as_ref().unwrap_or_else(|| event.metadata());
        let mut line = Vec::with_capacity(256);
        let mut serializer = serde_json::Serializer::new(&mut line);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("timestamp", &timestamp)?;
        map.serialize_entry("level", &metadata.level().as_serde())?;
        let mut map = if record.is_some() {
            let mut message = Message::default();
            event.record(&mut message);
            map.serialize_entry("message", &message.0)?;
            map
        } else {
            let mut visitor = SerdeMapVisitor::new(map);
            event.record(&mut visitor);
            visitor.take_serializer()?
        };
        if !spans.is_empty() {
            map.serialize_entry("span", spans)?;
        }
        for (name, value) in fields {
            map.serialize_entry(name, value)?;
        }
        if self.targets {
            map.serialize_entry("target", metadata.target())?;
        }
        map.end()?;
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

fn spans<S, N>(context: &FmtContext<'_, S, N>) -> String
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let scope = context.event_scope().into_iter().flat_map(|scope| scope.from_root());
    let spans = scope.map(|span| match span.extensions().get::<FormattedFields<N>>() {
        Some(fields) if !fields.is_empty() => format!("{}{{{fields}}}", span.name()),
        _ => span.name().to_owned(),
    });
    spans.collect::<Vec<_>>().join(":")
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(line)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, targets: bool) -> String {
        lines_of(format, targets, || tracing::info!(n = 1, "begun"))
    }

    fn lines_of(format: Format, targets: bool, work: impl FnOnce()) -> String {
        let context: Context = || vec![("request_id", "abc".to_owned())];
        let lines = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&lines);
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .event_format(Lines::new(format, targets, false, Some(context)))
            .with_writer(move || Sink(Arc::clone(&writer)));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, work);
        String::from_utf8(lines.lock().expect("no panic").clone()).expect("text")
    }

    #[test]
    fn a_line_of_json_is_one_flat_object() {
        let line: serde_json::Value =
            serde_json::from_str(&logged(Format::Json, true)).expect("JSON");
        assert_eq!((&line["level"], &line["message"]), (&"INFO".into(), &"begun".into()));
        assert_eq!((&line["n"], &line["request_id"]), (&1.into(), &"abc".into()));
        assert!(line["target"].as_str().is_some_and(|target| target.contains("log::lines")));
        assert!(!logged(Format::Json, false).contains("target"));
    }

    #[test]
    fn a_line_of_text_ends_in_its_fields() {
        let line = logged(Format::Text, false);
        assert!(line.ends_with(" INFO begun n=1 request_id=abc\n"), "{line}");
        assert!(logged(Format::Text, true).contains("log::lines"));
    }

    #[test]
    fn a_line_names_the_spans_around_it() {
        let work = || {
            let _outer = tracing::info_span!("order", id = 7).entered();
            let _inner = tracing::info_span!("payment").entered();
            tracing::info!("paid");
        };
        let line: serde_json::Value =
            serde_json::from_str(&lines_of(Format::Json, false, work)).expect("JSON");
        assert_eq!(line["span"], "order{id=7}:payment");
        let line = lines_of(Format::Text, false, work);
        assert!(line.contains(" order{id=7}:payment: paid"), "{line}");
    }
}
