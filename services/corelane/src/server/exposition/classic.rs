//! Prometheus text format 0.0.4, for scrapers without OpenMetrics.

use std::fmt::Write;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// In the older format, counters are named like their series, ending in `_total`, and exemplars do
/// not exist.
pub(crate) fn from_openmetrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        let line = match line.split_once("# ") {
            Some(("", rest)) => match rest.split_once(' ') {
                Some(("HELP", rest)) => {
                    help = rest;
                    continue;
                }
                Some(("TYPE", rest)) => {
                    family(&mut out, rest, std::mem::take(&mut help));
                    continue;
                }
                // OpenMetrics units and the end marker.
                _ => continue,
            },
            _ => without_exemplar(line),
        };
        out.push_str(line);
        out.push('\n');
    }
    out
}

fn family(out: &mut String, declared: &str, help: &str) {
    let (name, kind) = declared.split_once(' ').unwrap_or((declared, "unknown"));
    let (suffix, kind) = match kind {
        "counter" => ("_total", "counter"),
        "info" => ("_info", "gauge"),
        "gauge" | "stateset" => ("", "gauge"),
        "histogram" | "summary" => ("", kind),
        _ => ("", "untyped"),
    };
    if let Some((_, help)) = help.split_once(' ').filter(|(of, _)| *of == name) {
        let _ = writeln!(out, "# HELP {name}{suffix} {help}");
    }
    let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
}

/// Removes the exemplar after a value. Label values may contain `#`.
fn without_exemplar(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'#' if !quoted => return line[..at].trim_end(),
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_family_is_translated() {
        for (openmetrics, classic) in [
            (
                "# HELP a_seconds Time # of \"a\".\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n",
                "# HELP a_seconds_total Time # of \"a\".\n# TYPE a_seconds_total counter\n",
            ),
            (
                "a_total{b=\"\\\" # {\"} 1.5 # {trace_id=\"c\"} 0.5 1.0\n",
                "a_total{b=\"\\\" # {\"} 1.5\n",
            ),
            ("# HELP d D.\n# TYPE d info\n", "# HELP d_info D.\n# TYPE d_info gauge\n"),
            ("# HELP e E.\n# TYPE e histogram\n", "# HELP e E.\n# TYPE e histogram\n"),
            ("e_bucket{le=\"+Inf\"} 1 # {} 2\n# EOF\n", "e_bucket{le=\"+Inf\"} 1\n"),
            ("# TYPE f unknown\nf 1\n", "# TYPE f untyped\nf 1\n"),
        ] {
            assert_eq!(from_openmetrics(openmetrics), classic);
        }
    }
}
