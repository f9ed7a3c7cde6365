//! Credentials of a request (RFC 6750), and their rejection.

use corelane::Problem;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

/// The reason why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The request has no bearer token.
    Missing,
    /// The token does not have write access.
    Invalid,
    /// The request has several Authorization fields.
    Ambiguous,
}

impl Refusal {
    /// The response. If there is no token, it has no error code (section 3.1).
    pub(crate) fn problem(self) -> Problem {
        let status = match self {
            Refusal::Missing | Refusal::Invalid => StatusCode::UNAUTHORIZED,
            Refusal::Ambiguous => StatusCode::BAD_REQUEST,
        };
        let (slug, detail, challenge) = match self {
            Refusal::Missing => {
                ("unauthorized", "a bearer token is needed", r#"Bearer realm="corelane""#)
            }
            Refusal::Invalid => (
                "unauthorized",
                "the bearer token is not accepted",
                r#"Bearer realm="corelane", error="invalid_token""#,
            ),
            Refusal::Ambiguous => (
                "authorization",
                "there must be one Authorization field",
                r#"Bearer realm="corelane", error="invalid_request""#,
            ),
        };
        Problem::new(status, slug)
            .detail(detail)
            .header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
    }
}

/// Returns the bearer token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Result<&[u8], Refusal> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let field = fields.next().ok_or(Refusal::Missing)?.as_bytes();
    if fields.next().is_some() {
        return Err(Refusal::Ambiguous);
    }
    // Schemes are case-insensitive (RFC 9110 section 11.1), and a space ends them.
    let (scheme, rest) =
        field.split_at(field.iter().position(|&b| b == b' ').unwrap_or(field.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Refusal::Missing);
    }
    let token = rest.trim_ascii();
    if is_b64token(token) { Ok(token) } else { Err(Refusal::Invalid) }
}

/// Whether the bytes have the form of a token (RFC 6750 section 2.1).
fn is_b64token(token: &[u8]) -> bool {
    let padding = token.iter().rev().take_while(|&&b| b == b'=').count();
    let body = &token[..token.len() - padding];
    !body.is_empty() && body.iter().all(|&b| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&'static str]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(AUTHORIZATION, HeaderValue::from_static(field));
        }
        token(&headers).map(|token| String::from_utf8_lossy(token).into_owned())
    }

    #[test]
    fn a_token_follows_the_scheme() {
        for field in ["Bearer aZ09-._~+/==", "bearer aZ09-._~+/==", "BEARER   aZ09-._~+/=="] {
            assert_eq!(of(&[field]).as_deref(), Ok("aZ09-._~+/=="), "{field}");
        }
    }

    #[test]
    fn the_rest_is_refused() {
        for other in ["", "Basic YTpi", "Bearerabc", "abc", "Bearer,abc", "Bearer\tabc"] {
            assert_eq!(of(&[other]), Err(Refusal::Missing), "{other}");
        }
        for malformed in ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer =", "Bearer a=b"]
        {
            assert_eq!(of(&[malformed]), Err(Refusal::Invalid), "{malformed}");
        }
        assert_eq!(of(&[]), Err(Refusal::Missing));
        assert_eq!(of(&["Bearer a", "Bearer a"]), Err(Refusal::Ambiguous));
    }
}
