//! Caches header names, which most requests have in common.

use http::HeaderName;

use super::Meaning;

/// Longer names are rare and parsed each time.
const LONGEST: usize = 32;

/// Number of places; a browser behind a proxy sends about twenty headers.
const PLACES: usize = 128;

/// Headers of proxies that no standard defines. A constant name needs no reference count.
const OF_PROXIES: [HeaderName; 10] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-envoy-attempt-count"),
    HeaderName::from_static("x-envoy-expected-rq-timeout-ms"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("x-request-id"),
];

/// A name as it was written.
#[derive(Debug)]
struct Known {
    written: [u8; LONGEST],
    length: usize,
    name: HeaderName,
    meaning: Meaning,
}

/// The most recent names, indexed by a hash of their bytes. Comparing a name is much cheaper than
/// parsing it, which checks it, converts it to lower case, looks it up among the standard names,
/// and allocates memory for any other.
#[derive(Debug)]
pub(super) struct Names(Vec<Option<Known>>);

impl Default for Names {
    fn default() -> Self {
        Names((0..PLACES).map(|_| None).collect())
    }
}

impl Names {
    /// The name that is written like this, and its meaning. `None`: it is not a valid name.
    pub(super) fn read(&mut self, written: &[u8]) -> Option<(HeaderName, Meaning)> {
        if written.len() > LONGEST {
            // All names with a meaning are shorter.
            return HeaderName::from_bytes(written).ok().map(|name| (name, Meaning::End));
        }
        let place = &mut self.0[place(written)];
        if !place.as_ref().is_some_and(|known| known.is_written(written)) {
            *place = Some(Known::read(written)?);
        }
        place.as_ref().map(|known| (known.name.clone(), known.meaning))
    }
}

impl Known {
    fn read(written: &[u8]) -> Option<Self> {
        let name = HeaderName::from_bytes(written).ok()?;
        let name = OF_PROXIES.into_iter().find(|usual| *usual == name).unwrap_or(name);
        let (length, meaning) = (written.len(), Meaning::of(written));
        let mut known = Known { written: [0; LONGEST], length, name, meaning };
        known.written[..length].copy_from_slice(written);
        Some(known)
    }

    fn is_written(&self, written: &[u8]) -> bool {
        self.written[..self.length] == *written
    }
}

/// The place of a name. With these factors no two of the 38 names that browsers and proxies usually
/// send collide, in lower case or with capitals.
fn place(written: &[u8]) -> usize {
    let byte = |at: usize| written.get(at).map_or(0, |&byte| usize::from(byte));
    let (length, last) = (written.len(), written.len().wrapping_sub(1));
    (length + 3 * byte(0) + 25 * byte(last) + 19 * byte(last.wrapping_sub(3))) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_from_its_place_as_when_it_was_read() {
        let mut names = Names::default();
        let long = "x".repeat(LONGEST);
        let longer = "X".repeat(LONGEST + 1);
        let all = ["Host", "host", "HOST", "a", "X-Forwarded-For", "TRANSFER-ENCODING"];
        for written in all.iter().chain([&&*long, &&*longer]).cycle().take(30) {
            let (name, meaning) = names.read(written.as_bytes()).expect("a name");
            assert_eq!(name.as_str(), written.to_ascii_lowercase());
            let says = |name: &str| written.eq_ignore_ascii_case(name);
            assert_eq!(meaning == Meaning::Host, says("host"));
            assert_eq!(meaning == Meaning::Message, says("transfer-encoding"));
        }
    }

    #[test]
    fn names_that_share_a_place_are_told_apart() {
        let mut names = Names::default();
        for number in (0..3 * PLACES).chain(0..3 * PLACES) {
            let written = format!("X-{number}");
            let (name, _) = names.read(written.as_bytes()).expect("a name");
            assert_eq!(name.as_str(), written.to_ascii_lowercase());
        }
    }

    #[test]
    fn what_is_no_name_is_none_and_none_takes_its_place() {
        let mut names = Names::default();
        for wrong in ["", "a b", "a(", "\u{e9}", "a\r", &"(".repeat(LONGEST + 1)] {
            assert!(names.read(wrong.as_bytes()).is_none(), "{wrong:?}");
            assert!(names.read(wrong.as_bytes()).is_none(), "{wrong:?}, again");
        }
    }
}
