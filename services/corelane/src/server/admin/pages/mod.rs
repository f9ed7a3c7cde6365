//! The admin port's pages for people. The pages work without scripts and load nothing from other
//! sites.

pub(super) mod lanes;

use std::fmt::{self, Display, Write};

pub(super) const FILES: [(&str, &str, &str); 2] = [
    ("/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("live.js")),
];

/// Allows only the admin port's files and the data that its pages fetch from it.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Links are relative, so that pages work behind a proxy that adds a prefix, such as `kubectl
/// proxy`. The icon shows four lanes.
const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<link rel=\"stylesheet\" href=\"style.css\">
<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
%3Cpath stroke='%231769c5' stroke-width='2' d='M1 3h9M1 7h13M1 11h6M1 15h11'/%3E%3C/svg%3E\">
";

struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.to_string().chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

struct PhaseLabel<'a> {
    phase: &'a str,
    ready: bool,
}

impl Display for PhaseLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, ready) = if self.ready { ("good", "ready") } else { ("bad", "not ready") };
        write!(f, "<span id=\"phase\" class=\"badge {class}\">{}, {ready}</span>", self.phase)
    }
}

fn facts<'a>(out: &mut String, facts: impl IntoIterator<Item = (&'a str, String)>) -> fmt::Result {
    out.push_str("<dl class=\"facts\">\n");
    for (name, fact) in facts {
        writeln!(out, "<div><dt>{name}</dt><dd>{fact}</dd></div>")?;
    }
    out.push_str("</dl>\n");
    Ok(())
}

const PAGES: [(&str, &str); 4] = [
    (
        "/lanes",
        "The lanes: how busy each is, what it serves, and what each route is expected to cost. JSON for programs",
    ),
    ("/metrics", "All metrics, in the OpenMetrics text format"),
    ("/readyz", "Whether the replica takes requests, and which dependencies are down"),
    ("/healthz", "Whether the process is alive"),
];

pub(super) fn index<'a>(
    phase: &str,
    ready: bool,
    pages: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<String, fmt::Error> {
    let mut out = HEAD.to_owned();
    let phase = PhaseLabel { phase, ready };
    write!(
        out,
        "<title>Admin port</title>\n</head>\n<body>\n<header><h1>Admin port</h1>{phase}</header>\n\
         <main>\n<ul class=\"pages\">\n"
    )?;
    for (path, about) in PAGES.into_iter().chain(pages) {
        let (to, path, about) = (Escaped(&path[1..]), Escaped(path), Escaped(about));
        writeln!(
            out,
            "<li class=\"card\"><a href=\"{to}\"><code>{path}</code></a><p class=\"note\">{about}</p></li>"
        )?;
    }
    out.push_str("</ul>\n</main>\n</body>\n</html>\n");
    Ok(out)
}

/// Formats whole numbers with commas.
struct Grouped(u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

struct Time(f64);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let seconds = (ms / 1e3).round() as u64;
        match ms {
            0.0 => f.write_str("0"),
            ..1.0 => write!(f, "{} µs", digits(ms * 1e3)),
            ..1e3 => write!(f, "{} ms", digits(ms)),
            ..60e3 => write!(f, "{} s", digits(ms / 1e3)),
            ..3_600e3 => two(f, seconds, (60, "min"), (1, "s")),
            ..86_400e3 => two(f, seconds, (3_600, "h"), (60, "min")),
            _ => two(f, seconds, (86_400, "d"), (3_600, "h")),
        }
    }
}

fn two(
    f: &mut fmt::Formatter<'_>,
    seconds: u64,
    (large, name): (u64, &str),
    (small, next): (u64, &str),
) -> fmt::Result {
    write!(f, "{} {name}", seconds / large)?;
    match seconds % large / small {
        0 => Ok(()),
        rest => write!(f, " {rest} {next}"),
    }
}

struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|&(unit, _)| self.0 >= unit) {
            Some((unit, name)) => write!(f, "{} {name}", digits(self.0 as f64 / unit as f64)),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

fn digits(value: f64) -> String {
    let places = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        let text = Escaped("/<b class=\"a\">'&'").to_string();
        assert_eq!(text, "/&lt;b class=&quot;a&quot;&gt;&#39;&amp;&#39;");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let texts = [
            (0.0, "0"),
            (0.0425, "42.5 µs"),
            (7.123, "7.12 ms"),
            (250.0, "250 ms"),
            (1_500.0, "1.5 s"),
            (61e3, "1 min 1 s"),
            (7_200e3, "2 h"),
            (90_000e3, "1 d 1 h"),
        ];
        for (ms, text) in texts {
            assert_eq!(Time(ms).to_string(), text);
        }
    }

    #[test]
    fn counts_and_bytes_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(|n| Grouped(n).to_string()).join(" "),
            "0 999 1,000 1,234,567"
        );
        assert_eq!(
            [5, 1_536, 16 << 20].map(|n| Bytes(n).to_string()).join(", "),
            "5 bytes, 1.5 KiB, 16 MiB"
        );
    }
}
