//! Parses command-line values and formats figures.

use std::fs;
use std::path::Path;

use corelane_cli::model::{CapacityError, Mix};

pub(crate) fn mix(from: &str, text: &str) -> Result<Mix, String> {
    text.parse().map_err(|error: CapacityError| format!("{from}: {error}"))
}

pub(crate) fn mix_file(file: &Path) -> Result<Mix, String> {
    let name = format!("--mix-file {}", file.display());
    let text = fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    mix(&name, &lines.join("\n"))
}

/// Parses a duration of at most an hour. Returns seconds.
pub(crate) fn duration(text: &str) -> Result<f64, &'static str> {
    // Durations have the same syntax as the mean of a kind.
    let mix = format!("a=100%:{text}").parse::<Mix>();
    let plain = !text.contains([':', '+', ',', '=', '\n']);
    let mean = mix.ok().filter(|_| plain).map(|mix| mix.kinds()[0].lane.mean());
    mean.ok_or("expected a number with its unit (ns, us, ms, s) from 0s to 3600s")
}

pub(crate) fn target(text: &str) -> Result<f64, &'static str> {
    let allowed = "expected a number with its unit (ns, us, ms, s) above 0s, up to 3600s";
    duration(text).ok().filter(|seconds| *seconds > 0.0).ok_or(allowed)
}

fn bounded(text: &str, min: f64, max: f64, allowed: &'static str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or(allowed)
}

pub(crate) fn rate(text: &str) -> Result<f64, &'static str> {
    bounded(text, 1e-3, 1e9, "expected a number from 0.001 to 1e9")
}

pub(crate) fn unevenness(text: &str) -> Result<f64, &'static str> {
    bounded(text, 1.0, 1024.0, "expected a number from 1 to the number of lanes")
}

pub(crate) fn share(text: &str) -> Result<f64, &'static str> {
    let allowed = "expected a percentage from 0% to 99%";
    Ok(bounded(text.strip_suffix('%').ok_or(allowed)?, 0.0, 99.0, allowed)? / 100.0)
}

pub(crate) fn used(text: &str) -> Result<f64, &'static str> {
    let allowed = "expected a percentage from 0.1% to 1000%";
    Ok(bounded(text.strip_suffix('%').ok_or(allowed)?, 0.1, 1000.0, allowed)? / 100.0)
}

pub(crate) fn growth(text: &str) -> Result<f64, &'static str> {
    let allowed = "expected a percentage from 0% to 1000%";
    Ok(bounded(text.strip_suffix('%').ok_or(allowed)?, 0.0, 1000.0, allowed)? / 100.0)
}

pub(crate) fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if !s.is_finite() => return "endless".to_owned(),
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    format!("{} {unit}", digits(value))
}

pub(crate) fn digits(value: f64) -> String {
    let decimals = if value >= 100.0 { 0 } else { usize::from(value < 10.0) + 1 };
    format!("{value:.decimals$}")
}

/// Formats a whole number with commas, or up to three digits for values below 100.
pub(crate) fn whole(value: f64) -> String {
    if value < 99.5 {
        let rounded = format!("{value:.2e}").parse::<f64>();
        return rounded.unwrap_or(value).to_string();
    }
    let digits = format!("{value:.0}");
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(|group| String::from_utf8_lossy(group)).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(time(0.0071234), "7.12 ms");
        assert_eq!((time(0.000_025), time(12.0)), ("25.0 µs".to_owned(), "12.0 s".to_owned()));
        assert_eq!((time(f64::INFINITY), time(0.0)), ("endless".to_owned(), "0.00 µs".to_owned()));
        assert_eq!((whole(1_234_567.4), whole(999.0)), ("1,234,567".to_owned(), "999".to_owned()));
        let small = [5.0, 12.34, 0.00027777, 0.0].map(whole);
        assert_eq!(small, ["5", "12.3", "0.000278", "0"], "a request each hour is some");
    }

    #[test]
    fn words_have_bounds() {
        assert_eq!((duration("20ms"), duration("1.5us")), (Ok(0.02), Ok(1.5e-6)));
        for text in ["20", "1h", "-1s", "", "1ms:1ms", "1ms+1ms", "1ms,b=0%"] {
            duration(text).expect_err(text);
        }
        assert_eq!((share("0.1%"), growth("100%")), (Ok(0.001), Ok(1.0)));
        target("0s").expect_err("nothing is answered at once");
        assert_eq!(target("20ms"), Ok(0.02));
        share("5").expect_err("no percent sign");
        rate("0").expect_err("no load");
        rate("NaN").expect_err("no number");
    }
}
