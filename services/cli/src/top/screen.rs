//! Full-screen view of the table.

use std::io::{self, IsTerminal};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::lanes::{Lane, Sort, View};
use super::table::{self, COLUMNS};

const TICK: Duration = Duration::from_millis(100);

const WIDE: u16 = 112;

#[derive(Debug, Default)]
struct Screen {
    view: Option<View>,
    paused: bool,
    sort: Sort,
    filter: String,
    typing: bool,
    scroll: usize,
}

pub(super) fn run(views: &Receiver<View>, sort: Sort) -> io::Result<()> {
    if !io::stdout().is_terminal() {
        return Err(io::Error::other("the output is not a terminal: use --once"));
    }
    let mut screen = Screen { sort, ..Screen::default() };
    let mut terminal = ratatui::try_init()?;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| screen.draw(frame)) {
            break Err(error);
        }
        match screen.wait(views) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    ended
}

impl Screen {
    fn wait(&mut self, views: &Receiver<View>) -> io::Result<bool> {
        loop {
            if event::poll(TICK)? {
                return Ok(match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => self.press(key),
                    _ => true,
                });
            }
            if let Some(view) = views.try_iter().last().filter(|_| !self.paused) {
                self.view = Some(view);
                return Ok(true);
            }
        }
    }

    fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return false,
            KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Backspace if self.typing => drop(self.filter.pop()),
            KeyCode::Char(char) if self.typing => self.filter.push(char),
            KeyCode::Char('q') => return false,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Down => self.scroll += 1,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            _ => {}
        }
        true
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let view = self.view.clone().unwrap_or_default();
        let lost: Vec<_> = view.replicas.iter().filter(|replica| replica.error.is_some()).collect();
        let lines = u16::try_from(lost.len().min(3)).unwrap_or(3);
        let [head, errors, body, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(lines),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.summary(&view)), head);
        let lost = lost.iter().map(|replica| {
            let error = replica.error.as_deref().unwrap_or_default();
            Line::styled(format!("{}: {error}", replica.name), paint(Color::Red))
        });
        frame.render_widget(Paragraph::new(lost.collect::<Vec<_>>()), errors);
        let lanes = view.lanes(self.sort, &self.filter);
        let room = usize::from(body.height.saturating_sub(1));
        self.scroll = self.scroll.min(lanes.len().saturating_sub(room));
        frame.render_widget(rows(&lanes[self.scroll..], body), body);
        frame.render_widget(Paragraph::new(self.keys()), foot);
    }

    fn summary(&self, view: &View) -> Vec<Line<'static>> {
        let lanes = view.lanes(Sort::Replica, "");
        // Summing an empty iterator would yield -0.
        let sum = |of: fn(&Lane) -> f64| lanes.iter().fold(0.0, |sum, lane| sum + of(lane));
        let mean = |of| sum(of) / lanes.len().max(1) as f64;
        let replies = view.replicas.iter().filter(|replica| replica.error.is_none()).count();
        let (requests, p99) = (table::rate(sum(|lane| lane.requests)), table::bound(view.p99()));
        let (connections, parked) =
            (sum(|lane| lane.connections as f64), sum(|lane| lane.parked as f64));
        let state = match (&self.view, self.paused) {
            (None, _) => Span::styled("reading", paint(Color::Yellow)),
            (_, true) => Span::styled("PAUSED", paint(Color::Yellow).add_modifier(Modifier::BOLD)),
            _ => Span::styled("live", paint(Color::Green)),
        };
        let phases: Vec<_> = view.replicas.iter().map(|replica| replica.phase.as_str()).collect();
        let draining = phases.iter().filter(|phase| !matches!(**phase, "" | "serving")).count();
        let mut replicas = format!("{replies} of {} replicas, {} lanes", phases.len(), lanes.len());
        if draining > 0 {
            replicas += &format!(", {draining} draining");
        }
        vec![
            Line::from(vec![
                Span::styled("corelane top  ", Style::new().add_modifier(Modifier::BOLD)),
                state,
                Span::raw(format!("  {replicas}, sorted by {}", self.sort.name())),
            ]),
            Line::raw(format!(
                "busy {}, slow lanes {}, {requests} requests/s, p99 {p99}, {connections} conns ({parked} parked)",
                table::percent(mean(|lane| lane.busy)),
                table::percent(mean(|lane| lane.slow)),
            )),
        ]
    }

    fn keys(&self) -> Line<'static> {
        if self.typing {
            return Line::from(vec![
                Span::styled("filter: ", paint(Color::Yellow)),
                Span::raw(format!("{}_", self.filter)),
            ]);
        }
        let mut line = "q quit  p pause  s sort  / filter  arrows scroll".to_owned();
        if !self.filter.is_empty() {
            line += &format!("   only {}, Esc: all", self.filter);
        }
        Line::styled(line, Style::new().add_modifier(Modifier::DIM))
    }
}

/// Respects NO_COLOR (no-color.org).
fn paint(color: Color) -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain { Style::new() } else { Style::new().fg(color) }
}

fn rows(lanes: &[&Lane], area: Rect) -> Table<'static> {
    let wide = area.width >= WIDE;
    let columns: Vec<_> = COLUMNS.iter().filter(|column| wide || !column.optional).collect();
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let longest = lanes.iter().map(|lane| lane.replica.chars().count()).max().unwrap_or(0);
    let name = u16::try_from(longest).unwrap_or(u16::MAX).clamp(7, if wide { 40 } else { 16 });
    let fixed: u16 = columns.iter().map(|_| 8).sum();
    let bar = area.width.saturating_sub(name + 1 + 5 + 1 + fixed);
    let mut head = vec![Cell::from("REPLICA"), right("LANE".to_owned()), Cell::from("BUSY")];
    head.extend(columns.iter().map(|column| right(column.head.to_owned())));
    let rows = lanes.iter().map(|lane| {
        let style = if lane.stalled { paint(Color::Red) } else { Style::new() };
        let mut cells = vec![
            Cell::from(lane.replica.clone()),
            right(lane.index.to_string()),
            Cell::from(self::bar(lane, usize::from(bar))),
        ];
        cells.extend(columns.iter().map(|column| right((column.cell)(lane))));
        Row::new(cells).style(style)
    });
    let mut widths = vec![Constraint::Length(name), Constraint::Length(5), Constraint::Length(bar)];
    widths.extend(columns.iter().map(|_| Constraint::Length(7)));
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::REVERSED));
    Table::new(rows, widths).header(head).column_spacing(1)
}

/// `[|||||++    45%]`: the lane, then its slow lane.
fn bar(lane: &Lane, width: usize) -> Line<'static> {
    let inside = width.saturating_sub(2 + 5);
    let parts = |share: f64| (share * inside as f64).round() as usize;
    let all = parts(lane.busy).min(inside);
    let slow = parts(lane.slow).min(all);
    let color = if lane.busy >= 0.9 { Color::Red } else { Color::Cyan };
    Line::from(vec![
        Span::raw("["),
        Span::styled("|".repeat(all - slow), paint(color)),
        Span::styled("+".repeat(slow), paint(Color::Magenta)),
        Span::raw(" ".repeat(inside - all)),
        Span::raw(format!("{:>5}]", table::percent(lane.busy))),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::lanes::Replica;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(lanes: u64) -> Screen {
        let lane = |index| Lane {
            replica: "shop-0".into(),
            index,
            busy: 0.5,
            slow: 0.25,
            ..Lane::default()
        };
        let (name, phase) = ("shop-0".to_owned(), "serving".to_owned());
        let replica =
            Replica { name, phase, lanes: (0..lanes).map(lane).collect(), ..Replica::default() };
        let lost =
            Replica { name: "shop-1".into(), error: Some("no reply".into()), ..Replica::default() };
        Screen { view: Some(View { replicas: vec![replica, lost] }), ..Screen::default() }
    }

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let cells: Vec<_> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned()).collect()
    }

    fn press(screen: &mut Screen, keys: &str) -> Vec<bool> {
        let press = |char| screen.press(KeyEvent::new(KeyCode::Char(char), KeyModifiers::NONE));
        keys.chars().map(press).collect()
    }

    #[test]
    fn eighty_columns_have_room_for_what_matters() {
        let lines = drawn(&mut screen(40), 80, 24);
        assert!(
            lines[0].contains("live  1 of 2 replicas, 40 lanes, sorted by replica"),
            "{lines:#?}"
        );
        assert!(lines[1].starts_with("busy 50%, slow lanes 25%"), "{lines:#?}");
        assert_eq!(lines[2], "shop-1: no reply");
        for head in ["REPLICA", "LANE", "BUSY", "SLOW", "REQ/S", "P99", "QUEUED", "CONNS"] {
            assert!(lines[3].contains(head), "{head}: {}", lines[3]);
        }
        assert!(lines[4].contains("[|||") && lines[4].contains("+++") && lines[4].contains("50%]"));
        assert!(lines[23].starts_with("q quit"), "{lines:#?}");
        assert!(drawn(&mut screen(2), 160, 24)[3].contains("PARKED"));
        // The program must not exit if the terminal is too small to show anything.
        drawn(&mut screen(2), 10, 3);
    }

    #[test]
    fn keys_pause_sort_filter_and_quit() {
        let mut screen = screen(2);
        assert_eq!(press(&mut screen, "ps/qp"), [true; 5], "letters of a filter are no keys");
        assert!(screen.paused && screen.sort == Sort::Busy && screen.filter == "qp");
        let lines = drawn(&mut screen, 80, 24);
        assert!(lines[0].contains("PAUSED") && lines[23] == "filter: qp_", "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("|||")), "no replica has this name");
        screen.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!((press(&mut screen, "q"), screen.filter.as_str()), (vec![false], ""));
    }
}
