//! Tests the log in a separate program, because a process has only one log.

use std::io;
use std::time::{Duration, Instant};

use corelane_service::log::{Format, Log};

#[test]
fn records_of_the_crate_log_are_lines_and_a_second_log_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (format, path) = (Format::Json, file.path().to_owned());
    let log = Log { format, file: Some(path), targets: true, ..Log::default() };
    let (flush, _level) = log.start().expect("the first");

    tracing::info_span!("order", id = 7).in_scope(|| {
        log::info!(target: "old::module", "{} begun", 1);
    });
    log::debug!(target: "old::module", "hidden");
    let second = log.start().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(second, Err(io::ErrorKind::AlreadyExists));
    tracing::info!("ended");
    drop(flush);

    // Closing the log waits for its last lines, but only for a short time on a slow disk.
    let begun = Instant::now();
    let text = loop {
        let text = std::fs::read_to_string(file.path()).expect("text");
        if text.ends_with("}\n") && text.contains("\"ended\"") {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
    };
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    let line: serde_json::Value = serde_json::from_str(lines[0]).expect("JSON");
    assert_eq!((&line["level"], &line["message"]), (&"INFO".into(), &"1 begun".into()));
    assert_eq!((&line["target"], &line["span"]), (&"old::module".into(), &"order{id=7}".into()));
    assert!(line.get("log.target").is_none(), "{text}");
}
