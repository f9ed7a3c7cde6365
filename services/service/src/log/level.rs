//! Log levels.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

const NOISY: [&str; 2] = ["h2", "hyper"];

/// The minimum level of logged messages, for the entire program and for modules, as in
/// `info,corelane::request=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    text: String,
    rest: LevelFilter,
    parts: Vec<(String, LevelFilter)>,
}

impl Level {
    pub(super) fn targets(&self) -> Targets {
        let quiet = match self.rest {
            LevelFilter::DEBUG | LevelFilter::TRACE => self.rest,
            level => level.min(LevelFilter::ERROR),
        };
        let noisy = NOISY.map(|name| (name.to_owned(), quiet));
        let parts = noisy.into_iter().chain(self.parts.iter().cloned());
        Targets::new().with_default(self.rest).with_targets(parts)
    }
}

impl Default for Level {
    fn default() -> Self {
        Level { text: "info".to_owned(), rest: LevelFilter::INFO, parts: Vec::new() }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).ok_or_else(|| {
            "a level (off, error, warn, info, debug, trace), then target=level for parts of the \
             program, such as info,corelane::request=debug"
                .to_owned()
        })
    }
}

fn read(text: &str) -> Option<Level> {
    let mut items = text.split(',').map(str::trim);
    let rest = word(items.next()?)?;
    let parts = items.map(|item| {
        let (target, level) = item.split_once('=')?;
        is_target(target).then_some((target.to_owned(), word(level)?))
    });
    let parts: Vec<_> = parts.collect::<Option<_>>()?;
    let shown = parts.iter().map(|(target, level)| format!(",{target}={level}"));
    Some(Level { text: shown.fold(rest.to_string(), |all, part| all + &part), rest, parts })
}

fn word(text: &str) -> Option<LevelFilter> {
    Some(match text.to_ascii_lowercase().as_str() {
        "off" => LevelFilter::OFF,
        "error" => LevelFilter::ERROR,
        "warn" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => return None,
    })
}

fn is_target(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use tracing::Level as Severity;

    use super::*;

    fn logs(level: &str, target: &str, severity: Severity) -> bool {
        let level: Level = level.parse().expect("a valid level");
        level.targets().would_enable(target, &severity)
    }

    #[test]
    fn a_part_of_the_program_has_a_level_of_its_own() {
        let level = "info,corelane::request=debug,corelane=error";
        assert!(logs(level, "corelane::request", Severity::DEBUG));
        assert!(!logs(level, "corelane::lane", Severity::WARN));
        assert!(logs(level, "rustls", Severity::INFO));
        assert!(!logs("off", "corelane", Severity::ERROR));
        assert!(logs("WARN,corelane=Debug", "corelane", Severity::DEBUG));
        let level: Level = "Info, H2=OFF".parse().expect("levels are not case-sensitive");
        assert_eq!(level.to_string(), "info,H2=off");
    }

    #[test]
    fn what_clients_cause_is_quiet_unless_it_is_asked_for() {
        assert!(!logs("info", "hyper::proto", Severity::WARN));
        assert!(logs("debug", "h2::server", Severity::DEBUG));
        assert!(logs("info,h2=trace", "h2::server", Severity::TRACE));
        assert!(!logs("off", "h2", Severity::ERROR));
    }

    #[test]
    fn other_text_is_rejected() {
        for wrong in
            ["", "loud", "corelane=debug", "info,debug", "info,=debug", "info,a b=warn", "info,"]
        {
            assert!(
                wrong.parse::<Level>().is_err_and(|allowed| allowed.contains("debug")),
                "{wrong}"
            );
        }
    }
}
