//! The reference service's input: configuration, queries, documents and conditions.

use corelane_server::fuzzing::{self, half, ops, say_the_same};

use super::{Target, text};

/// The server's configuration: file, environment and flags.
///
/// The output of `--check` is a configuration file with the same values.
///
/// The input is a TOML file, a `---` line, and one line per variable (`NAME=value`) or flag.
pub(super) const CONFIGURATION: Target = Target {
    name: "configuration",
    run: |input| text(input, configuration),
    seeds: &[
        (
            "all",
            b"limits.slots = 1\n---\nCORELANE_LANES=auto\nCORELANE_LIMITS_HEADER_BYTES=32KiB\n\
            CORELANE_DRAIN_SETTLE=0\n--pin=on\n--static.root=.\n--log.level=debug\n",
        ),
        ("empty", b"# empty: every default\n"),
        (
            "file",
            b"listen = \"[::]:8080\"\nreplica = \"server-0\"\nlanes = 2\npin = \"off\"\n\
            placement = \"least-loaded\"\npark_after = \"off\"\nmoving = \"active\"\n[limits]\n\
            header_bytes = \"64KiB\"\nconnection_requests = \"off\"\nbody_bytes = \"1.5MB\"\n\
            [timeouts]\nconnection_age = \"1h 30m\"\nidle = \"75s\"\n[log]\nformat = \"json\"\n",
        ),
        (
            "wide_space",
            b"# wide space\n---\nCORELANE_TIMEOUTS_IDLE=75\xe2\x80\x83s\n",
        ),
        (
            "wrong",
            b"lanes = \"two\"\n[drain]\nsettled = 5\n---\nCORELANE_LANE=3\n--limits.body-bytes=10\n",
        ),
    ],
};

const FILE: [&str; 3] = ["corelane-server", "--config", "corelane.toml"];

fn configuration(text: &str) {
    let (file, lines) = text.split_once("\n---\n").unwrap_or((text, ""));
    let (flags, variables): (Vec<_>, Vec<_>) =
        lines.lines().partition(|line| line.starts_with('-'));
    let variables = variables.iter().filter_map(|line| line.split_once('='));
    let arguments = FILE.into_iter().chain(flags);
    match fuzzing::configuration(file, variables, arguments) {
        // Passwords are not shown.
        Ok(Some(accepted)) if accepted.shown.contains("(not shown)") => {}
        Ok(Some(accepted)) => {
            let again = fuzzing::configuration(&accepted.shown, [], FILE);
            let again = again.unwrap_or_else(|error| panic!("{error}\nin\n{}", accepted.shown));
            assert_eq!(again.map(|again| again.values), Some(accepted.values));
        }
        // Help or the version was requested.
        Ok(None) => {}
        Err(error) => assert!(!error.is_empty(), "an error says what is wrong"),
    }
}

pub(super) const DIV: Target = Target {
    name: "div",
    run: |input| text(input, div),
    seeds: &[
        ("long", b"123456789012345678901234567891"),
        ("no_decimal", b"1e3"),
        ("signed", b"-007.250"),
    ],
};

fn div(n: &str) {
    let Some(half) = half(n) else { return };
    let (sign, digits) = parts(&half);
    assert!(!digits.0.starts_with('0') || digits.0 == "0", "{half}: a leading zero");
    assert!(!half.contains('.') || !half.ends_with('0'), "{half}: a trailing zero");
    assert_eq!(normal(sign, double(digits)), normal_of(n));
    if let Ok(n) = n.parse::<i64>()
        && n % 2 == 0
    {
        assert_eq!(half, (n / 2).to_string());
    }
}

/// Sign, digits before the point, and digits after it.
fn parts(n: &str) -> (&str, (&str, &str)) {
    let (sign, digits) = n.strip_prefix('-').map_or(("", n), |digits| ("-", digits));
    (sign, digits.split_once('.').unwrap_or((digits, "")))
}

fn double((whole, fraction): (&str, &str)) -> (String, String) {
    let mut carry = 0;
    let mut digits: Vec<u8> = format!("{whole}{fraction}").into_bytes();
    for digit in digits.iter_mut().rev() {
        let sum = 2 * (*digit - b'0') + carry;
        (*digit, carry) = (b'0' + sum % 10, sum / 10);
    }
    digits.insert(0, b'0' + carry);
    let digits = String::from_utf8(digits).expect("digits");
    let (whole, fraction) = digits.split_at(digits.len() - fraction.len());
    (whole.to_owned(), fraction.to_owned())
}

fn normal(sign: &str, (whole, fraction): (String, String)) -> (String, String, String) {
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let sign = if whole.is_empty() && fraction.is_empty() { "" } else { sign };
    (sign.to_owned(), whole.to_owned(), fraction.to_owned())
}

fn normal_of(n: &str) -> (String, String, String) {
    let (sign, (whole, fraction)) = parts(n);
    normal(sign, (whole.to_owned(), fraction.to_owned()))
}

/// The query of `/work?ops=N`: the number is within its bound, no matter what surrounds it.
///
/// The first line of the input is the bound.
pub(super) const WORK: Target = Target {
    name: "work",
    run: |input| text(input, work),
    seeds: &[
        ("encoded", b"100\na=b&o%70s=%31+"),
        ("plain", b"10\nops=5"),
        ("twice", b"10\nops=1&ops=1"),
    ],
};

fn work(text: &str) {
    let (most, query) = text.split_once('\n').unwrap_or(("", text));
    let most = most.parse().unwrap_or(u64::MAX);
    let found = ops(query, most);
    assert!(found.is_none_or(|n| n <= most), "{found:?} of {most}");
    let Some(n) = found else { return };
    assert_eq!(ops(&format!("ops={n}"), most), found);
    assert_eq!(ops(&format!("{query}&ops={n}"), most), None, "given twice");
    assert_eq!(ops(query, n), found, "at its bound");
    if let Some(less) = n.checked_sub(1) {
        assert_eq!(ops(query, less), None, "above its bound");
    }
}

/// Project documents. The stored text has the meaning of the sent text and is a valid document
/// itself.
pub(super) const DOCUMENT: Target = Target {
    name: "document",
    run: document,
    seeds: &[
        ("repeated", b"{\"name\":\"a\",\"name\":\"b\"}"),
        ("whole", b"{\"name\": \"n\", \"description\": \"\\u0000 \\\"\\\\\", \"status\": \"done\", \"tags\": [\"a b\"],\n\
            \x20\"tasks\": [{\"title\": \"t\", \"done\": true, \"notes\": \"\"}]}"),
    ],
};

fn document(text: &[u8]) {
    let Some(stored) = fuzzing::document(text) else { return };
    assert!(stored.len() <= text.len());
    assert!(stored.starts_with(b"{\"") && stored.ends_with(b"}"), "it is spliced into replies");
    assert!(say_the_same(text, &stored));
    assert_eq!(fuzzing::document(&stored).as_deref(), Some(stored.as_slice()));
}

/// If-Match and If-None-Match: each of them rejects a tag that the other accepts.
///
/// The first 2 bytes of the input are the version of the resource, minus 1.
pub(super) const CONDITIONS: Target = Target {
    name: "conditions",
    run: conditions,
    seeds: &[("any", b"\0\0*"), ("list", b"\0\0\"1\", W/\"2\" ,,\"a,b\"")],
};

fn conditions(input: &[u8]) {
    let Some((version, field)) = input.split_first_chunk::<2>() else { return };
    let version = i64::from(u16::from_le_bytes(*version)) + 1;
    let nothing = b"";
    let Some((read, written)) = fuzzing::conditions(field, b"\"none\"", version) else {
        assert_eq!(fuzzing::conditions(b"*", field, version), None, "one grammar for both fields");
        return;
    };
    assert_eq!(read, written);
    let unless = fuzzing::conditions(b"*", field, version).expect("one grammar for both fields");
    assert_eq!(unless.0, unless.1);
    // Strong equality implies weak equality (RFC 9110 section 8.8.3.2).
    assert!(!(read && unless.0));
    assert_eq!(fuzzing::conditions(nothing, nothing, version), Some((false, false)));
    // With one more tag that names the version, the request is accepted.
    if !field.trim_ascii().starts_with(b"*") {
        let more = [field, format!(", \"{version}\"").as_bytes()].concat();
        assert_eq!(fuzzing::conditions(&more, nothing, version), Some((true, true)));
    }
}
