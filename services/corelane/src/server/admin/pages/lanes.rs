//! Renders `/lanes` as HTML. The script only refetches the page and adds rates and charts.

use std::fmt::{self, Display, Write};

use super::{Bytes, Escaped, Grouped, HEAD, PhaseLabel, Time, facts};
use crate::server::admin::lanes::{CostView, LaneView, ServerView, Spread};

pub(in crate::server::admin) fn render(view: &ServerView) -> Result<String, fmt::Error> {
    let mut out = String::with_capacity(16 * 1024);
    let phase = PhaseLabel { phase: view.phase, ready: view.ready };
    write!(
        out,
        "{HEAD}<script src=\"live.js\" defer></script>\n<title>Lanes</title>\n</head>\n<body>\n\
         <header><h1>Lanes</h1>{phase}<a href=\"./\">All pages</a>\n\
         <div class=\"controls\"><span id=\"state\" class=\"note\" role=\"status\"></span>\
         <button type=\"button\" id=\"pause\" title=\"Key: p\" hidden>Pause</button></div></header>\n\
         <main data-uptime=\"{}\">\n",
        view.uptime_seconds,
    )?;
    tiles(&mut out, view)?;
    lanes(&mut out, view)?;
    costs(&mut out, view)?;
    settings(&mut out, view)?;
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

/// A share from 0 to 1.
struct Percent(f64);

impl Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}%", self.0 * 100.0)
    }
}

/// A counter. The page's script writes the counter's rate next to it.
struct Counter<'a>(&'a str, u64);

impl Display for Counter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counter(name, total) = self;
        let name = Escaped(name);
        write!(f, "{} <small data-rate=\"{name}\" data-total=\"{total}\"></small>", Grouped(*total))
    }
}

/// A full-width bar that shows the lane's part and then its slow lane's part.
struct Bar<'a> {
    label: &'a str,
    lane: f64,
    slow: f64,
}

impl Display for Bar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (label, lane, slow) = (Escaped(self.label), self.lane * 100.0, self.slow * 100.0);
        write!(
            f,
            "<svg class=\"bar\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\">\
             <rect class=\"of-lane\" width=\"{lane:.1}\" height=\"1\"/>\
             <rect class=\"of-slow\" x=\"{lane:.1}\" width=\"{slow:.1}\" height=\"1\"/></svg>"
        )
    }
}

fn tiles(out: &mut String, view: &ServerView) -> fmt::Result {
    let sum = |of: fn(&LaneView) -> u64| view.lanes.iter().map(of).sum::<u64>();
    let busy =
        view.lanes.iter().map(|lane| lane.busy).sum::<f64>() / view.lanes.len().max(1) as f64;
    let window = Time(view.busy_window_ms);
    let stalled = view.lanes.iter().filter(|lane| lane.stalled).count();
    let tiles = [
        ("Busy", Percent(busy).to_string(), format!("all lanes, last {window}")),
        (
            "Requests",
            Counter("requests", sum(|lane| lane.totals.requests)).to_string(),
            String::new(),
        ),
        (
            "In flight",
            Grouped(sum(|lane| lane.in_flight)).to_string(),
            format!("{} queued", Grouped(sum(|lane| lane.queued))),
        ),
        (
            "Connections",
            Grouped(sum(|lane| lane.connections)).to_string(),
            format!("{} parked", Grouped(sum(|lane| lane.connections_parked))),
        ),
        ("Stalled lanes", stalled.to_string(), format!("of {}", view.lanes.len())),
        (
            "Uptime",
            Time((view.uptime_seconds * 1e3).floor()).to_string(),
            format!("version {}", view.version),
        ),
    ];
    out.push_str("<dl class=\"tiles\">\n");
    for (name, value, below) in tiles {
        writeln!(
            out,
            "<div class=\"tile\"><dt>{name}</dt><dd>{value}<small>{below}</small></dd></div>"
        )?;
    }
    out.push_str("</dl>\n");
    Ok(())
}

fn lanes(out: &mut String, view: &ServerView) -> fmt::Result {
    out.push_str(
        "<section aria-labelledby=\"lanes\">\n<h2 id=\"lanes\">Busy share of each lane</h2>\n",
    );
    if view.lanes.iter().any(|lane| lane.slow.is_some()) {
        out.push_str(
            "<ul class=\"key\"><li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\" class=\"bar\"><rect class=\"of-lane\" width=\"1\" \
             height=\"1\"/></svg>lane</li><li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\" class=\"bar\"><rect class=\"of-slow\" \
             width=\"1\" height=\"1\"/></svg>slow lane on the same CPU</li></ul>\n",
        );
    }
    out.push_str("<ul class=\"lanes\">\n");
    view.lanes.iter().try_for_each(|lane| self::lane(out, lane))?;
    out.push_str("</ul>\n</section>\n");
    Ok(())
}

fn lane(out: &mut String, lane: &LaneView) -> fmt::Result {
    let index = lane.lane;
    let (class, badge) = match lane.stalled {
        true => ("lane stalled", "<span class=\"badge bad\">stalled</span>"),
        false => ("lane", ""),
    };
    let cpu = lane.cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}, pinned"));
    let mut label = format!("Lane {index}: busy {}", Percent(lane.busy));
    if lane.slow.is_some() {
        write!(label, ", of it {} slow lane", Percent(lane.slow_busy))?;
    }
    let bar = Bar { label: &label, lane: lane.busy - lane.slow_busy, slow: lane.slow_busy };
    let polling = lane.polling.as_ref().map_or("Polls no handler".to_owned(), |polling| {
        format!("Polls {} {} for {}", polling.method, polling.route, Time(polling.for_ms))
    });
    writeln!(
        out,
        "<li class=\"{class}\"><div class=\"head\"><h3>Lane {index}</h3><span class=\"badge\">{cpu}</span>{badge}\
         <span class=\"busy\">{}</span></div>\n{bar}\n\
         <svg class=\"chart\" data-chart=\"{index}\" data-value=\"{:.1}\" viewBox=\"0 0 59 101\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\"><polyline points=\"\"/></svg>\n\
         <p class=\"note polling\">{}</p>",
        Percent(lane.busy),
        lane.busy * 100.0,
        Escaped(polling),
    )?;
    lane_facts(out, lane)?;
    out.push_str("</li>\n");
    Ok(())
}

fn lane_facts(out: &mut String, lane: &LaneView) -> fmt::Result {
    let (totals, count) = (&lane.totals, |n: u64| Grouped(n).to_string());
    let total = |name: &str, n| Counter(&format!("{name}-{}", lane.lane), n).to_string();
    let bad = |name, n| match n {
        0 => total(name, 0),
        _ => format!("<strong class=\"bad\">{}</strong>", total(name, n)),
    };
    let requests = [
        ("Requests", total("requests", totals.requests)),
        ("In flight", count(lane.in_flight)),
        ("Queued", count(lane.queued)),
        ("Expected work", Time(lane.expected_work_ms).to_string()),
        ("Connections", count(lane.connections)),
        ("Parked", count(lane.connections_parked)),
    ];
    facts(out, requests)?;
    out.push_str("<details><summary>More</summary>\n");
    let mut more = vec![
        ("Shed", bad("shed", totals.shed)),
        ("Stalls", bad("stalls", totals.stalls)),
        ("Panics", bad("panics", totals.panics)),
        ("Accepted", total("accepted", totals.accepted)),
        ("Stolen", total("stolen", totals.stolen)),
        ("Moved away", total("departed", totals.departed)),
        ("Moved here", total("arrived", totals.arrived)),
        ("Upgraded", count(lane.upgraded)),
    ];
    more.extend(lane.connections_queued.map(|n| ("In its inbox", count(n as u64))));
    if let Some(slow) = &lane.slow {
        more.extend([
            ("Slow: requests", total("slow", slow.requests)),
            ("Slow: waiting", count(slow.waiting)),
            ("Slow: running", count(slow.running)),
            ("Slow: expected work", Time(slow.expected_work_ms).to_string()),
            ("Slow: taken over", count(slow.stolen)),
            ("Slow: CPU time", Time(slow.cpu_seconds * 1e3).to_string()),
            ("Slow: yielded to it", Time(slow.yielded_seconds * 1e3).to_string()),
            ("Slow: priority", slow.priority.to_owned()),
        ]);
    }
    facts(out, more)?;
    out.push_str("</details>\n");
    Ok(())
}

fn costs(out: &mut String, view: &ServerView) -> fmt::Result {
    out.push_str(
        "<section aria-labelledby=\"costs\">\n<h2 id=\"costs\">Expected cost of each route</h2>\n",
    );
    if view.costs.is_empty() {
        out.push_str("<p class=\"note\">No request yet.</p>\n</section>\n");
        return Ok(());
    }
    out.push_str(
        "<p class=\"note\">Of the next request, from the load tables of all lanes: mean ± mean deviation. Lane time is how long \
         the handler holds its thread, service time how long the head of the response takes.</p>\n\
         <div class=\"card\"><table role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">",
    );
    for name in COLUMNS {
        write!(out, "<th scope=\"col\" role=\"columnheader\">{name}</th>")?;
    }
    out.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    view.costs.iter().try_for_each(|cost| self::cost(out, cost, view.lanes.len()))?;
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    Ok(())
}

/// The table roles are explicit, because on phones the page displays names and values as blocks.
const COLUMNS: [&str; 6] =
    ["Route", "Lane time", "Service time", "Share of lane time", "Requests", "Served by"];

fn cost(out: &mut String, cost: &CostView, lanes: usize) -> fmt::Result {
    let row = &cost.row;
    let spread = |of: &Spread| {
        format!("<span class=\"time\">{} ± {}</span>", Time(of.mean), Time(of.deviation))
    };
    let kind = format!("{} {}", row.method, row.route);
    let served = match cost.slow_on {
        0 => "<span class=\"badge\">lane</span>".to_owned(),
        on if on == lanes => "<span class=\"badge slow\">slow lane</span>".to_owned(),
        on => format!("<span class=\"badge slow\">slow lane</span> on {on} of {lanes}"),
    };
    let label = format!("{} of the lane time", Percent(row.share));
    let (lane, slow) = if cost.slow_on > 0 { (0.0, row.share) } else { (row.share, 0.0) };
    let cells = [
        spread(&row.lane_ms),
        spread(&row.service_ms),
        format!("{}{}", Percent(row.share), Bar { label: &label, lane, slow }),
        Counter(&kind, row.observations).to_string(),
        served,
    ];
    write!(
        out,
        "<tr role=\"row\"><th scope=\"row\" role=\"rowheader\"><code>{}</code></th>",
        Escaped(&kind)
    )?;
    for (name, cell) in COLUMNS[1..].iter().zip(cells) {
        write!(out, "<td role=\"cell\" data-name=\"{name}\">{cell}</td>")?;
    }
    out.push_str("</tr>\n");
    Ok(())
}

fn settings(out: &mut String, view: &ServerView) -> fmt::Result {
    let limits = &view.limits;
    let (count, bytes) = (|n: usize| Grouped(n as u64).to_string(), |n: u64| Bytes(n).to_string());
    let rate = |rate: Option<u64>| or_any(rate.map(|rate| format!("{}/s", Bytes(rate))));
    let all = [
        ("Placement", Escaped(&view.placement).to_string()),
        ("Moving", Escaped(&view.moving).to_string()),
        ("Parked after", view.park_after_ms.map_or("never".to_owned(), |ms| Time(ms).to_string())),
        ("Connections in transit", Grouped(view.connections_in_transit).to_string()),
        ("Connections", count(limits.connections)),
        ("Of an address", or_any(limits.connections_per_address.map(count))),
        (
            "Requests of a connection",
            or_any(limits.connection_requests.map(|n| Grouped(n).to_string())),
        ),
        ("Slots", count(limits.slots)),
        ("Queue", count(limits.queue)),
        ("Blocking threads", count(limits.blocking_threads)),
        ("Blocking queue", count(limits.blocking_queue)),
        ("Header fields", count(limits.headers)),
        ("Header", bytes(limits.header_bytes as u64)),
        ("URI", bytes(limits.uri_bytes as u64)),
        ("Body", bytes(limits.body_bytes)),
        ("Unsent responses", bytes(limits.unsent_bytes)),
        ("Unsent of a connection", bytes(limits.unsent_connection_bytes as u64)),
        ("Slowest reader", rate(limits.send_rate)),
        ("Slowest sender", rate(limits.receive_rate)),
    ];
    let timeouts: Vec<_> =
        view.timeouts_ms.0.iter().map(|(name, ms)| (*name, or_any(ms.map(Time)))).collect();
    out.push_str("<section aria-labelledby=\"settings\">\n<h2 id=\"settings\">Settings</h2>\n<div class=\"card\">\n\
                  <details><summary>Placement and limits</summary>\n");
    facts(out, all)?;
    out.push_str("</details>\n<details><summary>Time limits</summary>\n");
    facts(out, timeouts.iter().map(|(name, text)| (*name, text.clone())))?;
    out.push_str("</details>\n</div>\n</section>\n");
    Ok(())
}

fn or_any(limit: Option<impl Display>) -> String {
    limit.map_or("any".to_owned(), |limit| limit.to_string())
}
