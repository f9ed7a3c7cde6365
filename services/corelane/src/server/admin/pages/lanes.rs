//! Renders `/lanes` as HTML, without scripts or external resources.

use std::fmt::{self, Display, Write};

use super::lanes::{LaneView, View};

/// Blocks scripts and external resources: the page has none.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta http-equiv=\"refresh\" content=\"2\">
<title>Lanes</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #222; background: #fff; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 2em 0 .3em; }
table { border-collapse: collapse; }
th, td { padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: right;
  font-variant-numeric: tabular-nums; }
th { font-weight: 600; background: #f5f5f5; }
.text { text-align: left; }
.stalled { background: #fdd; }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1em; }
dd { margin: 0; }
</style>
</head>
<body>
<h1>Lanes</h1>
";

/// Escapes text for HTML.
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

/// The whole page.
pub(super) fn render(view: &View) -> Result<String, fmt::Error> {
    let mut out = String::with_capacity(16 * 1024);
    out.push_str(HEAD);
    server(&mut out, view)?;
    lanes(&mut out, view)?;
    view.lanes.iter().try_for_each(|lane| routes(&mut out, lane))?;
    out.push_str("</body>\n</html>\n");
    Ok(out)
}

fn server(out: &mut String, view: &View) -> fmt::Result {
    let limits = &view.limits;
    let requests = or_any(limits.connection_requests);
    let of_address = or_any(limits.connections_per_address);
    let (send, receive) = (or_any(limits.send_rate), or_any(limits.receive_rate));
    let timeouts: Vec<_> = view
        .timeouts_ms
        .0
        .iter()
        .map(|(name, timeout)| match timeout {
            Some(timeout) => format!("{name} {timeout} ms"),
            None => format!("{name} none"),
        })
        .collect();
    let facts = [
        ("version", view.version.to_owned()),
        ("phase", format!("{}{}", view.phase, if view.ready { ", ready" } else { ", not ready" })),
        ("uptime", format!("{:.0} s", view.uptime_seconds)),
        ("placement", view.placement.clone()),
        (
            "idle connections",
            format!(
                "{}, moving {}, {} in transit",
                view.park_after_ms
                    .map_or("not parked".to_owned(), |idle| format!("parked after {idle} ms")),
                view.moving,
                view.connections_in_transit,
            ),
        ),
        (
            "limits",
            format!(
                "connections {}, requests of a connection {requests}, slots {}, queue {}, \
                 blocking threads {}, blocking queue {}, headers {}, header bytes {}, URI bytes {}, body bytes {}",
                limits.connections,
                limits.slots,
                limits.queue,
                limits.blocking_threads,
                limits.blocking_queue,
                limits.headers,
                limits.header_bytes,
                limits.uri_bytes,
                limits.body_bytes,
            ),
        ),
        (
            "limits of a client",
            format!(
                "connections of an address {of_address}, unsent bytes {}, of a connection {}, \
                 send rate {send}, receive rate {receive}",
                limits.unsent_bytes, limits.unsent_connection_bytes,
            ),
        ),
        ("time-outs", timeouts.join(", ")),
    ];
    out.push_str("<dl>\n");
    for (name, fact) in facts {
        writeln!(out, "<dt>{name}</dt><dd>{}</dd>", Escaped(fact))?;
    }
    out.push_str("</dl>\n");
    Ok(())
}

fn or_any(limit: Option<impl Display>) -> String {
    limit.map_or("any".to_owned(), |limit| limit.to_string())
}

/// One line for each lane.
fn lanes(out: &mut String, view: &View) -> fmt::Result {
    let window = view.busy_window_ms / 1e3;
    write!(
        out,
        "<table>\n<tr><th>lane<th>CPU<th>busy, {window:.1} s<th>connections<th>parked<th>in its inbox<th>in flight<th>upgraded<th>queued\
         <th>expected work, ms<th class=\"text\">polling<th>accepted<th>stolen<th>departed<th>arrived<th>requests<th>shed<th>stalls\
         <th>panics</tr>\n"
    )?;
    for lane in &view.lanes {
        let class = if lane.stalled { " class=\"stalled\"" } else { "" };
        let cpu = lane.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
        let queued = lane.connections_queued.map_or(String::new(), |queued| queued.to_string());
        let polling = lane.polling.as_ref().map_or(String::new(), |polling| {
            format!("{} {} for {:.1} ms", polling.method, polling.route, polling.for_ms)
        });
        let totals = &lane.totals;
        writeln!(
            out,
            "<tr{class}><td>{}<td>{cpu}<td>{:.1}%<td>{}<td>{}<td>{queued}<td>{}<td>{}<td>{}<td>{:.1}\
             <td class=\"text\">{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            lane.lane,
            lane.busy * 100.0,
            lane.connections,
            lane.connections_parked,
            lane.in_flight,
            lane.upgraded,
            lane.queued,
            lane.expected_work_ms,
            Escaped(polling),
            totals.accepted,
            totals.stolen,
            totals.departed,
            totals.arrived,
            totals.requests,
            totals.shed,
            totals.stalls,
            totals.panics,
        )?;
    }
    out.push_str("</table>\n");
    Ok(())
}

/// The top routes of a lane's load table.
fn routes(out: &mut String, lane: &LaneView) -> fmt::Result {
    if lane.routes.is_empty() {
        return Ok(());
    }
    write!(
        out,
        "<h2>Load table of lane {}</h2>\n<table>\n<tr><th class=\"text\">method\
         <th class=\"text\">route<th>share of lane time<th>requests<th>lane time, ms<th>deviation\
         <th>service time, ms<th>deviation</tr>\n",
        lane.lane
    )?;
    for row in &lane.routes {
        writeln!(
            out,
            "<tr><td class=\"text\">{}<td class=\"text\">{}<td>{:.1}%<td>{}<td>{:.3}<td>{:.3}\
             <td>{:.3}<td>{:.3}</tr>",
            Escaped(row.method),
            Escaped(&row.route),
            row.share * 100.0,
            row.observations,
            row.lane_ms.mean,
            row.lane_ms.deviation,
            row.service_ms.mean,
            row.service_ms.deviation,
        )?;
    }
    out.push_str("</table>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        let text = Escaped("/<b class=\"a\">'&'").to_string();
        assert_eq!(text, "/&lt;b class=&quot;a&quot;&gt;&#39;&amp;&#39;");
    }
}
