//! Kinds of requests that a replica serves, and their text form.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::KINDS;
use super::{CapacityError, Time};

/// A kind of request: its cost and its share.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Method and route, such as `GET /hello`.
    pub name: String,
    /// Share of all requests, above 0 and up to 1.
    pub share: f64,
    /// Time during which the handler holds the lane.
    pub lane: Time,
    /// Time during which the handler waits, for example for a database. While waiting, the request
    /// keeps its slot but not the lane.
    pub wait: Time,
    /// Whether the kind runs on the slow lane, where the lane's own requests interrupt it.
    pub slow: bool,
}

impl Kind {
    /// Service time: lane time plus waiting time.
    pub fn service(&self) -> Time {
        self.lane.plus(self.wait)
    }
}

/// Kinds with shares that sum to 1.
///
/// The text form is a comma-separated list of
/// `KIND=SHARE%[:MEAN[:DEVIATION]][+WAIT[:DEVIATION]][@slow]`. The handler holds its lane for
/// `MEAN` and then waits without it for `WAIT`. A time without a standard deviation is fixed, and
/// an omitted time is 0. Durations need units. `@slow` marks a kind that runs on the slow lane.
///
/// ```
/// use corelane_cli::model::Mix;
///
/// let mix: Mix = "GET /hello=90%, GET /work=10%:7ms".parse().unwrap();
/// assert_eq!(mix.kinds()[1].name, "GET /work");
/// assert_eq!(mix.kinds()[1].lane.mean(), 0.007);
/// let wrong = "GET /hello=90%".parse::<Mix>().unwrap_err();
/// assert!(wrong.to_string().starts_with("the shares add up to 90%: expected 100%"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    kinds: Vec<Kind>,
}

impl Mix {
    /// Creates a mix from distinct kinds. Shares must add up to 1, to within a thousandth, so that
    /// a third may be written as 33.3%.
    pub fn new(mut kinds: Vec<Kind>) -> Result<Mix, CapacityError> {
        if kinds.is_empty() || kinds.len() > KINDS {
            return Err(CapacityError::Kinds(kinds.len()));
        }
        let mut names = HashSet::new();
        if let Some(twice) = kinds.iter().find(|kind| !names.insert(kind.name.as_str())) {
            return Err(CapacityError::Twice(twice.name.clone()));
        }
        let sum: f64 = kinds.iter().map(|kind| kind.share).sum();
        let positive = kinds.iter().all(|kind| kind.share > 0.0);
        if !positive || (sum - 1.0).abs() > 1e-3 + 1e-9 {
            return Err(CapacityError::Shares((sum * 1e5).round() / 1e3));
        }
        kinds.iter_mut().for_each(|kind| kind.share /= sum);
        Ok(Mix { kinds })
    }

    /// All kinds; their shares add up to 1.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    pub(super) fn mean(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        self.kinds.iter().map(|kind| kind.share * of(kind)).sum()
    }
}

impl FromStr for Mix {
    type Err = CapacityError;

    fn from_str(text: &str) -> Result<Mix, CapacityError> {
        let parts = text.split([',', '\n']).map(str::trim);
        let kinds = parts.filter(|part| !part.is_empty()).map(kind).take(KINDS + 1);
        Mix::new(kinds.collect::<Result<_, _>>()?)
    }
}

fn kind(text: &str) -> Result<Kind, CapacityError> {
    let read = || {
        let (name, rest) = text.rsplit_once('=')?;
        let (rest, slow) = rest.strip_suffix("@slow").map_or((rest, false), |rest| (rest, true));
        let unfinished = rest.ends_with('+');
        let (rest, wait) = rest.split_once('+').map_or((rest, ""), |(rest, wait)| (rest, wait));
        if unfinished || name.trim().is_empty() {
            return None;
        }
        let (share, lane) = rest.split_once(':').map_or((rest, ""), |(share, lane)| (share, lane));
        if rest.ends_with(':') {
            return None;
        }
        let share: f64 = share.trim().strip_suffix('%')?.trim().parse().ok()?;
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let finite = share.is_finite();
        let (lane, wait) = (time(lane)?, time(wait)?);
        finite.then_some(Kind { name, share: share / 100.0, lane, wait, slow })
    };
    read().ok_or_else(|| CapacityError::Form(text.to_owned()))
}

fn time(text: &str) -> Option<Time> {
    if text.is_empty() {
        return Some(Time::ZERO);
    }
    let mut parts = text.split(':').map(|part| seconds(part.trim()));
    let (mean, deviation) = (parts.next()??, parts.next().unwrap_or(Some(0.0))?);
    parts.next().is_none().then(|| Time::new(mean, deviation).ok())?
}

const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// No request runs for longer than an hour.
const LONGEST: Duration = Duration::from_secs(3600);

fn seconds(text: &str) -> Option<f64> {
    let (unit, nanos) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text[..text.len() - unit.len()].trim_end();
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let nanos: f64 = number.parse::<f64>().ok().filter(|_| plain)? * nanos;
    (nanos <= LONGEST.as_nanos() as f64).then_some(nanos / 1e9)
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.kinds.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}={}%", kind.name, kind.share * 100.0)?;
            for (sign, time) in [(':', kind.lane), ('+', kind.wait)] {
                if time != Time::ZERO {
                    write!(f, "{sign}{}s", time.mean())?;
                }
                if time.deviation() > 0.0 {
                    write!(f, ":{}s", time.deviation())?;
                }
            }
            if kind.slow {
                f.write_str("@slow")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_kind_is_read() {
        let text = "GET /a=b=25%:1.5ms:500us+2ms:1s\nPOST  /projects=74.95%+3ms, x=0.05%@slow";
        let mix: Mix = text.parse().expect("it is of the form");
        let [first, second, third] = mix.kinds() else { panic!("three: {mix:?}") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("GET /a=b", "POST /projects"));
        assert_eq!(first.lane, Time::new(0.0015, 0.0005).expect("a time"));
        assert_eq!(first.wait, Time::new(0.002, 1.0).expect("a time"));
        assert_eq!((second.lane, second.wait.mean()), (Time::ZERO, 0.003));
        assert!((third.share - 0.0005).abs() < 1e-12);
        assert_eq!([first.slow, second.slow, third.slow], [false, false, true]);
        assert_eq!(
            mix.to_string().parse::<Mix>().map(|again| again.to_string()),
            Ok(mix.to_string())
        );
    }

    #[test]
    fn what_is_not_of_the_form_is_named() {
        for text in [
            "GET /=100",
            "=100%",
            "GET /",
            "a=100%:7",
            "a=100%:",
            "a=100%:1ms:",
            "a=100%+",
            "a=1e2%:-1ms",
            "a=100%@fast",
            "a=100%+@slow",
            "a=100%:1ms:1ms:1ms",
            "a=100%:1e3s",
            "a=NaN%",
            "a=100%:2h",
            "a=100%:3601s",
            "a=100%:0ms:1ms",
            "a=100%:1ns:1s",
        ] {
            let error = text.parse::<Mix>().expect_err(text);
            assert_eq!(error, CapacityError::Form(text.to_owned()), "{text}");
        }
        for text in ["a=50%,b=49%", "a=0%,b=100%", "a=-1%,b=101%", "a=1%"] {
            let error = text.parse::<Mix>().expect_err(text);
            assert!(matches!(error, CapacityError::Shares(_)), "{text}: {error}");
        }
        "a=33.3%,b=33.3%,c=33.3%".parse::<Mix>().expect("three thirds are a whole");
        assert_eq!(" , ".parse::<Mix>(), Err(CapacityError::Kinds(0)));
        assert_eq!("a=50%,a=50%".parse::<Mix>(), Err(CapacityError::Twice("a".to_owned())));
    }
}
