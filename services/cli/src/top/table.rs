//! The table's columns, and the table as plain text.

use std::fmt::Write;

use super::lanes::{Bound, Lane, Sort, View};

/// A table column, shown after the replica and busy share columns.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) cell: fn(&Lane) -> String,
    pub(super) optional: bool,
}

const fn column(head: &'static str, cell: fn(&Lane) -> String) -> Column {
    Column { head, cell, optional: false }
}

const fn optional(head: &'static str, cell: fn(&Lane) -> String) -> Column {
    Column { head, cell, optional: true }
}

pub(super) const COLUMNS: [Column; 10] = [
    optional("CPU", |lane| lane.cpu.map_or("any".to_owned(), |cpu| cpu.to_string())),
    column("SLOW", |lane| percent(lane.slow)),
    column("REQ/S", |lane| rate(lane.requests)),
    column("P99", |lane| bound(lane.p99)),
    optional("RUNNING", |lane| lane.in_flight.to_string()),
    column("QUEUED", |lane| lane.queued.to_string()),
    column("CONNS", |lane| lane.connections.to_string()),
    optional("PARKED", |lane| lane.parked.to_string()),
    optional("WORK", |lane| millis(lane.expected_ms)),
    optional("STATE", |lane| if lane.stalled { "stalled" } else { "ok" }.to_owned()),
];

pub(super) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

pub(super) fn rate(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.1}"),
        ..10e3 => format!("{value:.0}"),
        ..10e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.0}M", value / 1e6),
    }
}

pub(super) fn millis(ms: f64) -> String {
    match ms {
        0.0 => "0".to_owned(),
        ..1.0 => format!("{:.0}us", ms * 1e3),
        ..10.0 => format!("{ms:.1}ms"),
        ..1e3 => format!("{ms:.0}ms"),
        _ => format!("{:.1}s", ms / 1e3),
    }
}

pub(super) fn bound(p99: Option<Bound>) -> String {
    match p99 {
        None => "-".to_owned(),
        Some(Bound::AtMost(seconds)) => format!("<{}", millis(seconds * 1e3)),
        Some(Bound::Above(seconds)) => format!(">{}", millis(seconds * 1e3)),
    }
}

/// Formats the table for scripts: space-separated words, one line per lane, then the replicas that
/// failed to respond.
pub(super) fn text(view: &View, sort: Sort) -> String {
    let mut rows = vec![["REPLICA", "LANE", "BUSY"].map(str::to_owned).to_vec()];
    rows[0].extend(COLUMNS.iter().map(|column| column.head.to_owned()));
    for lane in view.lanes(sort, "") {
        let mut row = vec![lane.replica.clone(), lane.index.to_string(), percent(lane.busy)];
        row.extend(COLUMNS.iter().map(|column| (column.cell)(lane)));
        rows.push(row);
    }
    let width = |place: usize| rows.iter().map(|row| row[place].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        // Writing to a string cannot fail.
        let _ = write!(out, "{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>width$}");
        }
        out.push('\n');
    }
    for replica in &view.replicas {
        if let Some(error) = &replica.error {
            let _ = writeln!(out, "{}: {error}", replica.name);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Replica;
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_lane_and_each_loss() {
        let lane = |index, busy| Lane {
            replica: "shop-0".into(),
            index,
            busy,
            requests: 12_345.0,
            p99: Some(Bound::AtMost(0.0025)),
            expected_ms: 0.25,
            ..Lane::default()
        };
        let up = Replica {
            name: "shop-0".into(),
            lanes: vec![lane(0, 0.1), lane(1, 0.96)],
            ..Replica::default()
        };
        let down =
            Replica { name: "shop-1".into(), error: Some("no reply".into()), ..Replica::default() };
        let text = text(&View { replicas: vec![up, down] }, Sort::Busy);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].len(), 13);
        assert_eq!(
            lines[1],
            ["shop-0", "1", "96%", "any", "0%", "12k", "<2.5ms", "0", "0", "0", "0", "250us", "ok"]
        );
        assert_eq!((lines[2][1], lines[3].join(" ").as_str()), ("0", "shop-1: no reply"));
    }
}
