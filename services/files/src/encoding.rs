//! Negotiates a file's content coding (RFC 9110 section 12.5.3).

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderValue};

/// A content coding that a copy next to the file may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    /// In order of typical savings, which is the order of preference between copies of equal
    /// length.
    pub(crate) const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }

    pub(crate) fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    pub(crate) fn value(self) -> HeaderValue {
        HeaderValue::from_static(self.token())
    }
}

/// The client's weight for each coding, in thousandths, or `None` for codings that the client does
/// not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    codings: [Option<u16>; 3],
    identity: Option<u16>,
    any: Option<u16>,
}

impl Accepted {
    /// Without Accept-Encoding, every coding is acceptable. Such a client is probably simple,
    /// however, so it gets the unencoded file.
    pub(crate) fn of(headers: &HeaderMap) -> Accepted {
        let mut accepted = Accepted::default();
        let values = headers.get_all(ACCEPT_ENCODING).iter();
        for element in values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')) {
            accepted.note(element);
        }
        accepted
    }

    fn note(&mut self, element: &str) {
        let (name, weight) = element.split_once(';').unwrap_or((element, ""));
        let Some(quality) = quality(weight) else { return };
        let name = name.trim_matches([' ', '\t']);
        let is = |token: &str| name.eq_ignore_ascii_case(token);
        let place = if is("identity") {
            &mut self.identity
        } else if is("*") {
            &mut self.any
        } else if is("br") {
            &mut self.codings[Coding::Brotli as usize]
        } else if is("zstd") {
            &mut self.codings[Coding::Zstd as usize]
        } else if is("gzip") || is("x-gzip") {
            &mut self.codings[Coding::Gzip as usize]
        } else {
            return;
        };
        *place = Some(quality);
    }

    /// Weight of a coding. A coding with weight 0 is not acceptable.
    fn quality(&self, coding: Coding) -> u16 {
        self.codings[coding as usize].or(self.any).unwrap_or(0)
    }

    /// Picks the first coding with the highest weight, if that is at least the weight of the
    /// unencoded file. A client that accepts none of the available codings also gets the unencoded
    /// file.
    pub(crate) fn choose(&self, codings: impl Iterator<Item = Coding>) -> Option<Coding> {
        let mut best = (self.identity.or(self.any).unwrap_or(0).max(1), None);
        for coding in codings {
            let quality = self.quality(coding);
            if quality > best.0 || (quality == best.0 && best.1.is_none()) {
                best = (quality, Some(coding));
            }
        }
        best.1
    }
}

/// Weight of an element in thousandths (section 12.4.2): 1 if no weight is given, and `None` if the
/// weight is invalid.
fn quality(weight: &str) -> Option<u16> {
    let weight = weight.trim_matches([' ', '\t']);
    if weight.is_empty() {
        return Some(1000);
    }
    let (name, value) = weight.split_once('=')?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !name.eq_ignore_ascii_case("q") || !digits || !matches!(whole, "0" | "1") {
        return None;
    }
    let thousandths: u16 = format!("{whole}{fraction:0<3}").parse().ok()?;
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(accept: &str, there: &[Coding]) -> &'static str {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(accept).expect("a value"));
        let chosen = Accepted::of(&headers).choose(there.iter().copied());
        chosen.map_or("identity", Coding::token)
    }

    #[test]
    fn the_client_chooses_by_weight() {
        for (accept, chosen) in [
            ("gzip, deflate, br, zstd", "br"),
            ("gzip", "gzip"),
            ("x-gzip", "gzip"),
            ("GZIP;Q=0.5", "gzip"),
            ("br;q=0.5, gzip;q=0.8", "gzip"),
            ("br;q=0, *", "zstd"),
            ("*;q=0.1", "br"),
            ("br;q=0.001", "br"),
            ("identity, br;q=0.9", "identity"),
            ("identity;q=0.5, gzip", "gzip"),
            ("identity;q=1, gzip;q=1", "gzip"),
            ("identity;q=0, deflate", "identity"),
            ("*;q=0", "identity"),
            ("", "identity"),
            ("deflate, compress", "identity"),
            ("br;q=2, gzip;q=x, zstd;level=3", "identity"),
            ("br;q=1.001", "identity"),
            ("br;q=0.0001", "identity"),
            (" gzip ; q=1.0 ", "gzip"),
            ("*;q=0.5, br;q=0.2, gzip;q=0, zstd;q=0.4", "identity"),
        ] {
            assert_eq!(choice(accept, &Coding::ALL), chosen, "{accept:?}");
        }
    }

    #[test]
    fn only_what_is_there_is_chosen() {
        assert_eq!(choice("br, gzip;q=0.1", &[Coding::Gzip]), "gzip");
        assert_eq!(choice("br", &[Coding::Gzip]), "identity");
        assert_eq!(choice("br, gzip", &[]), "identity");
        // The shorter copy is first.
        assert_eq!(choice("br, gzip", &[Coding::Gzip, Coding::Brotli]), "gzip");
    }
}
