//! The time for which a caller waits for the response.

use std::time::Duration;

use http::HeaderValue;

use crate::base::clock::Millis;

/// The caller's remaining time in milliseconds. Envoy and `corelane-client` send this header.
pub(crate) const REMAINING_FIELD: &str = "x-envoy-expected-rq-timeout-ms";

/// The time in this header, or the longest time if the header is invalid.
pub(crate) fn remaining(value: &HeaderValue) -> Millis {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let millis = text.and_then(|text| text.parse().ok());
    millis.map_or(Millis::MAX, |millis| Duration::from_millis(millis).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_milliseconds_count() {
        let read = |text| Duration::from(remaining(&HeaderValue::from_static(text)));
        assert_eq!((read("250"), read("0")), (Duration::from_millis(250), Duration::ZERO));
        for other in ["", "-1", "+1", "1.5", "1s", "99999999999999999999"] {
            assert_eq!(read(other), Duration::from(Millis::MAX), "{other}");
        }
    }
}
