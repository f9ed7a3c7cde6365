//! The claims of a client's JSON Web Token (RFC 7519), checked by the gateway or by this service.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use corelane::Problem;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Caller;

/// The header in which the gateway sends the claims of a token that it has verified: a JSON object
/// in base64url without padding. The gateway removes a client's field of this name.
pub const CLAIMS: HeaderName = HeaderName::from_static("corelane-claims");

/// The names of the gateway's tokens begin with this word. Any other holder of a token could make
/// up claims.
const GATEWAY: &str = "gateway";

impl Caller {
    /// The claims of the client's JSON Web Token in this request, with these headers. The claims
    /// come from the token itself (Cargo feature `jwt`), or from the gateway, whose token in
    /// `auth.tokens` has a name that begins with `gateway`.
    ///
    /// # Errors
    ///
    /// Returns a response with status 403 if the request has no verified claims, or if the claims
    /// do not match `T`.
    ///
    /// ```
    /// use corelane::Problem;
    /// use corelane_service::auth::Caller;
    /// use http::HeaderMap;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct User {
    ///     sub: String,
    /// }
    ///
    /// fn greeting(caller: &Caller, headers: &HeaderMap) -> Result<String, Problem> {
    ///     let user: User = caller.claims(headers)?;
    ///     Ok(format!("hello, {}", user.sub))
    /// }
    /// ```
    pub fn claims<T: DeserializeOwned>(&self, headers: &HeaderMap) -> Result<T, Problem> {
        #[cfg(feature = "jwt")]
        if let Some(verified) = &self.verified {
            return T::deserialize(&**verified).map_err(|error| refusal(&error.to_string()));
        }
        let mut fields = headers.get_all(CLAIMS).iter();
        match (fields.next(), fields.next()) {
            (Some(field), None) if self.name.starts_with(GATEWAY) => {
                parse(field.as_bytes()).map_err(|reason| refusal(&reason))
            }
            _ => Err(refusal("the request has no verified claims")),
        }
    }

    /// Copies the claims that [`Caller::claims`] would return to the headers of a call to another
    /// service. That service accepts them only with a token of this service whose name begins with
    /// `gateway`. Without verified claims, removes the header.
    ///
    /// ```
    /// use corelane_service::auth::{CLAIMS, Caller};
    /// use http::{HeaderMap, Request};
    ///
    /// fn call(caller: &Caller, headers: &HeaderMap) -> Request<()> {
    ///     let mut request = Request::new(());
    ///     caller.forward(headers, request.headers_mut());
    ///     request
    /// }
    /// ```
    pub fn forward(&self, from: &HeaderMap, to: &mut HeaderMap) {
        to.remove(CLAIMS);
        if let Ok(claims) = self.claims::<serde_json::Map<String, Value>>(from) {
            let field = URL_SAFE_NO_PAD.encode(Value::Object(claims).to_string());
            to.extend(HeaderValue::try_from(field).ok().map(|field| (CLAIMS, field)));
        }
    }
}

fn parse<T: DeserializeOwned>(field: &[u8]) -> Result<T, String> {
    let json = URL_SAFE_NO_PAD.decode(field).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

fn refusal(reason: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "claims").detail(format!("claims: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct User {
        sub: String,
        #[serde(default)]
        roles: Vec<String>,
    }

    /// Returns the claims of a caller with this name and these header values, or 403 if there are
    /// no claims.
    fn claims(name: &str, values: &[&str]) -> Result<User, u16> {
        let caller = Caller {
            name: name.into(),
            #[cfg(feature = "jwt")]
            verified: None,
        };
        let value = |text: &&str| (CLAIMS, HeaderValue::from_str(text).expect("a value"));
        let headers = HeaderMap::from_iter(values.iter().map(value));
        caller.claims(&headers).map_err(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn claims_of_the_gateway_are_typed() {
        let sent = URL_SAFE_NO_PAD.encode(r#"{"sub":"zoë","roles":["buyer"],"exp":1}"#);
        let user = Ok(User { sub: "zoë".to_owned(), roles: vec!["buyer".to_owned()] });
        assert_eq!(claims("gateway", &[&sent]), user);
        assert_eq!(claims("gateway-2", &[&sent]), user);
    }

    #[test]
    fn only_verified_claims_are_forwarded() {
        let sent = URL_SAFE_NO_PAD.encode(r#"{"sub":"ada","roles":["buyer"]}"#);
        let field = HeaderValue::from_str(&sent).expect("a value");
        let forwarded = |name: &str| {
            let caller = Caller {
                name: name.into(),
                #[cfg(feature = "jwt")]
                verified: None,
            };
            let mut to = HeaderMap::from_iter([(CLAIMS, HeaderValue::from_static("old"))]);
            caller.forward(&HeaderMap::from_iter([(CLAIMS, field.clone())]), &mut to);
            to.get(CLAIMS).map(|field| parse::<User>(field.as_bytes()).expect("claims").sub)
        };
        assert_eq!((forwarded("gateway").as_deref(), forwarded("ci")), (Some("ada"), None));
    }

    #[test]
    fn claims_of_others_and_malformed_claims_are_rejected() {
        let sent = URL_SAFE_NO_PAD.encode(r#"{"sub":"ada"}"#);
        assert!(claims("gateway", &[&sent]).is_ok());
        assert_eq!(claims("ci", &[&sent]), Err(403));
        assert_eq!(claims("gateway", &[]), Err(403));
        assert_eq!(claims("gateway", &[&sent, &sent]), Err(403));
        for malformed in ["", "{}", "e30", "e30=", "bm90IGpzb24", r#"{"sub":"ada"}"#] {
            assert_eq!(claims("gateway", &[malformed]), Err(403), "{malformed}");
        }
    }
}
