//! JSON Web Tokens (RFC 7519), signed by a key of a JWK set (RFC 7517). Cargo feature `jwt`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result as Checked};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::signature::{Error as BadSignature, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

use super::{Caller, tokens};
use crate::config::ConfigErrors;
use crate::value::{file, text};

settings! {
    /// The settings that determine which JSON Web Tokens are valid.
    pub(crate) struct JwtKeys {
        "auth.jwt.keys" => jwt_keys: Option<PathBuf> = "", file,
            "File of the JWK set whose keys sign JSON Web Tokens; checked every auth.reload; empty accepts none";
        "auth.jwt.issuer" => jwt_issuer: String = "", text,
            "Issuer that a JSON Web Token must name (iss)";
        "auth.jwt.audience" => jwt_audience: String = "", text,
            "Audience that a JSON Web Token must name (aud): this service";
    }
}

/// The current keys, and the claims that a valid token must have.
#[derive(Debug)]
pub(super) struct Jwt {
    file: PathBuf,
    /// The initial content.
    text: String,
    validation: Validation,
    current: RwLock<Arc<Vec<Key>>>,
}

/// A key, and the algorithms that it may be used with.
#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Jwt {
    /// Loads the keys, if the configuration names a file.
    pub(super) fn load(config: &JwtKeys) -> Result<Option<Arc<Jwt>>, ConfigErrors> {
        let Some(file) = config.jwt_keys.clone() else { return Ok(None) };
        for (key, text) in
            [("auth.jwt.issuer", &config.jwt_issuer), ("auth.jwt.audience", &config.jwt_audience)]
        {
            if text.is_empty() {
                let error = format!("{key} is empty: auth.jwt.keys needs it");
                return Err(ConfigErrors(vec![error]));
            }
        }
        // Only the first call in a process succeeds, but all callers install the same provider.
        let _ = RING.install_default();
        let read = read(&file).and_then(|text| Ok((parse(&text)?, text)));
        let (keys, text) = read.map_err(|error| {
            ConfigErrors(vec![format!("auth.jwt.keys: {}: {error}", file.display())])
        })?;
        // Each key determines its own algorithms.
        let mut validation = Validation::new(Algorithm::RS256);
        validation.validate_nbf = true;
        validation.set_issuer(&[&config.jwt_issuer]);
        validation.set_audience(&[&config.jwt_audience]);
        validation.set_required_spec_claims(&["aud", "exp", "iss", "sub"]);
        let current = RwLock::new(Arc::new(keys));
        Ok(Some(Arc::new(Jwt { file, text, validation, current })))
    }

    /// Reads the file again periodically, on a separate thread. If the keys cannot be read, nothing
    /// changes.
    pub(super) fn watch(self: &Arc<Self>, every: Duration) -> std::io::Result<()> {
        let jwt = Arc::clone(self);
        let mut seen = Ok(jwt.text.clone());
        let watch = move || {
            loop {
                std::thread::sleep(every);
                jwt.look(&mut seen);
            }
        };
        std::thread::Builder::new().name("jwt-keys".to_owned()).spawn(watch).map(drop)
    }

    /// Applies the file's content if it is new.
    fn look(&self, seen: &mut Result<String, String>) {
        let read = read(&self.file);
        if read == *seen {
            return;
        }
        let file = self.file.display();
        match read.as_deref().map_err(Clone::clone).and_then(parse) {
            Ok(keys) => {
                tracing::info!(%file, keys = keys.len(), "keys of JSON Web Tokens reloaded");
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            Err(error) => tracing::error!(
                %file, error, "keys of JSON Web Tokens not reloaded: the previous ones stay active"
            ),
        }
        *seen = read;
    }

    /// The sender of a valid token.
    pub(super) fn caller(&self, token: &[u8]) -> Option<Caller> {
        let header = decode_header(token).ok()?;
        // RFC 7515 section 4.1.11: this parser supports no critical header parameters.
        if header.crit.is_some() {
            return None;
        }
        let keys = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let claims = keys.iter().filter(|key| header.kid.is_none() || key.id == header.kid);
        let claims = claims.filter(|key| key.algorithms.contains(&header.alg)).find_map(|key| {
            let algorithms = key.algorithms.clone();
            let validation = Validation { algorithms, ..self.validation.clone() };
            decode::<Value>(token, &key.key, &validation).ok()
        })?;
        let claims = claims.claims;
        Some(Caller { name: claims["sub"].as_str()?.into(), verified: Some(Arc::new(claims)) })
    }
}

fn read(file: &Path) -> Result<String, String> {
    let text = tokens::read(file)?;
    text.ok_or_else(|| "No such file".to_owned())
}

/// The signing keys. Other keys in the set, such as encryption keys, are ignored.
fn parse(text: &str) -> Result<Vec<Key>, String> {
    let set: JwkSet = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let keys: Vec<_> = set.keys.iter().filter_map(key).collect();
    if keys.is_empty() {
        return Err("expected a JWK set with a public key: RSA, P-256, P-384 or Ed25519".to_owned());
    }
    Ok(keys)
}

fn key(jwk: &Jwk) -> Option<Key> {
    if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return None;
    }
    let family = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => RSA.as_slice(),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(_) => &[Algorithm::EdDSA],
        // Anyone with the secret of a symmetric key can create tokens.
        _ => return None,
    };
    let named = jwk.common.key_algorithm.map(|named| named.to_string().parse());
    let algorithms = match named {
        Some(named) => vec![named.ok().filter(|named| family.contains(named))?],
        None => family.to_vec(),
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(Key { id: jwk.common.key_id.clone(), algorithms, key })
}

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Checks signatures with ring. The service never signs anything.
static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Checks signatures of one algorithm with one key.
struct Check(Algorithm, DecodingKey);

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Checked<Box<dyn JwtVerifier>> {
    match algorithm.family() == key.family() {
        true => Ok(Box::new(Check(*algorithm, key.clone()))),
        false => Err(ErrorKind::InvalidKeyFormat.into()),
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.0
    }
}

impl Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), BadSignature> {
        let checked = match self.1.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                let algorithm = match self.0 {
                    Algorithm::RS256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::RS512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return Err(BadSignature::new()),
                };
                key.verify(algorithm, message, signed)
            }
            DecodingKeyKind::SecretOrDer(key) => {
                let algorithm: &'static dyn signature::VerificationAlgorithm = match self.0 {
                    Algorithm::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &signature::ED25519,
                    _ => return Err(BadSignature::new()),
                };
                UnparsedPublicKey::new(algorithm, key).verify(message, signed)
            }
        };
        checked.map_err(|_| BadSignature::new())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::auth::Auth;

    /// The modulus of an OpenSSL key, and a token signed with it by RS256.
    const N: &str = "09qfdwBfKAmXBRZ1WwULByzLy3O9-9yiEnQRzq-a6SS3LsRKi71l2cls9R8BuRIP1PMTGOApmRujN3MLUlhcu56ngsKd\
    34UMlhEU0hmMiUZTOLE1eejcfhJQG9ndmxgoZOlU30xxoJoVwkWdZj2NIEDR5KdBL3DG6luduVQ0uKXJxF9xR0mxGdNr\
    QFPlm5RGrpl4WW03RdizB2AZbYyq1DC8-ba3B5RolQzb0jZEKpFmaPVzUqkfuL1ebs1-Fmjx0FX74c4_TCk78dOZCPNN\
    ujUkZFstl6st3Wq45yFs5bfJyLr3sSUmZlhTyZgk_JbY5FTlIJeFwpKFgQk-AvwiKw";
    const SIGNED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiJjaSIsImlzcyI6Imh0dHBzOi8vaXNzdWVyIiwiYXVkIjo\
    ic2hvcCIsImV4cCI6NDEwMjQ0NDgwMH0.YyK4aXPfGsmGIjsQdwSTBhaO6X1Vng0vLbZY6wWyWCAnZnGBLQPAEw3zRYn\
    wKL10_WYZob0lRBPDp04Q43rdlT8yK0CmUigfVv3W5owy0lzr9rwYFrBB44dKvOnqkg69c7o8CNyrXApNpvYEmb-u98v\
    R-dLNgT0VndkHkc_4r9jUT8aJvPNGHdlZApFNeBORAzh_XvDhAHCPXvHvv60YbMVwxbEqZ9O0MIjNcAdbVrMdAsDNPDA\
    bEtM9DpjTmx99nXimjQY97n7sMoXxBvkN1k2k_3mQ3T-VVEuJsCESKgNbzwr4nAhh5CtcrxjO4D9SRK72YBxp_g5c6WE\
    NamepsA";

    fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Creates a token with this header and these claims.
    fn token(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let message = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signed = sign(message.as_bytes());
        format!("{message}.{}", encode(signed))
    }

    fn claims() -> Value {
        json!({ "sub": "ci", "iss": "https://issuer", "aud": "shop", "exp": 4_102_444_800_u64, "role": "buyer" })
    }

    fn jwt(keys: &Value) -> Arc<Jwt> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("keys");
        std::fs::write(&file, json!({ "keys": keys }).to_string()).expect("written");
        let config = JwtKeys {
            jwt_keys: Some(file),
            jwt_issuer: "https://issuer".to_owned(),
            jwt_audience: "shop".to_owned(),
        };
        Jwt::load(&config).expect("valid").expect("a file is named")
    }

    fn name(jwt: &Jwt, token: &str) -> Option<String> {
        jwt.caller(token.as_bytes()).map(|caller| caller.name().to_owned())
    }

    /// Creates an Ed25519 key pair, and its public part.
    fn pair(id: &str) -> (Ed25519KeyPair, Value) {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("random numbers");
        let pair = Ed25519KeyPair::from_pkcs8(pair.as_ref()).expect("a pair");
        let x = encode(pair.public_key());
        (pair, json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": x }))
    }

    #[test]
    fn keys_of_every_kind_sign() {
        let (pair, edwards) = pair("ed");
        let random = SystemRandom::new();
        let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ecdsa = EcdsaKeyPair::generate_pkcs8(curve, &random).expect("random numbers");
        let ecdsa = EcdsaKeyPair::from_pkcs8(curve, ecdsa.as_ref(), &random).expect("a pair");
        let (x, y) = ecdsa.public_key().as_ref()[1..].split_at(32);
        let p256 = json!({ "kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y) });
        let rsa = json!({ "kty": "RSA", "kid": "rsa", "alg": "RS256", "n": N, "e": "AQAB" });
        let other = json!({ "kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "n": N, "e": "AQAB" });
        let jwt = jwt(&json!([other, edwards, p256, rsa]));

        let auth =
            Arc::new(Auth { jwt: Some((Arc::clone(&jwt), Duration::MAX)), ..Auth::default() });
        let bearer = HeaderValue::try_from(format!("Bearer {SIGNED}")).expect("a value");
        let caller = auth.lane().check(&HeaderMap::from_iter([(AUTHORIZATION, bearer)]));
        assert_eq!(caller.expect("valid").name(), "ci");
        let signed = token(&json!({ "alg": "EdDSA", "kid": "ed" }), &claims(), |message| {
            pair.sign(message).as_ref().to_vec()
        });
        let caller = jwt.caller(signed.as_bytes()).expect("valid");
        assert_eq!(caller.claims::<Value>(&HeaderMap::new()).expect("claims")["role"], "buyer");
        let signed = token(&json!({ "alg": "ES256" }), &claims(), |message| {
            ecdsa.sign(&random, message).expect("random numbers").as_ref().to_vec()
        });
        assert_eq!(name(&jwt, &signed).as_deref(), Some("ci"));
    }

    #[test]
    fn what_is_forged_or_meant_for_others_is_invalid() {
        let ((pair, key), (forger, _)) = (pair("a"), pair("a"));
        let jwt = jwt(&json!([key]));
        let header = json!({ "alg": "EdDSA", "kid": "a" });
        let sign = |message: &[u8]| pair.sign(message).as_ref().to_vec();
        assert!(name(&jwt, &token(&header, &claims(), sign)).is_some());

        let forged = token(&header, &claims(), |message| forger.sign(message).as_ref().to_vec());
        assert_eq!(name(&jwt, &forged), None);
        for other in [
            json!({ "alg": "none" }),
            json!({ "alg": "HS256", "kid": "a" }),
            json!({ "alg": "EdDSA", "kid": "b" }),
            json!({ "alg": "EdDSA", "kid": "a", "crit": ["exp"] }),
        ] {
            assert_eq!(name(&jwt, &token(&other, &claims(), sign)), None, "{other}");
        }
        for (claim, wrong) in [
            ("iss", json!("https://other")),
            ("aud", json!(["other"])),
            ("exp", json!(1_000_000_000)),
            ("exp", json!("4102444800")),
            ("nbf", json!(4_102_444_800_u64)),
            ("sub", Value::Null),
            ("aud", Value::Null),
        ] {
            let mut claims = claims();
            claims[claim] = wrong;
            assert_eq!(name(&jwt, &token(&header, &claims, sign)), None, "{claims}");
        }
        assert_eq!(name(&jwt, "a.b.c"), None);
    }

    #[test]
    fn a_reload_changes_the_keys_unless_it_fails() {
        let ((pair, key), (_, other)) = (pair("a"), pair("b"));
        let folder = tempfile::tempdir().expect("a folder");
        let jwt = Jwt {
            file: folder.path().join("keys"),
            ..Arc::into_inner(jwt(&json!([key]))).expect("one")
        };
        let sign = |message: &[u8]| pair.sign(message).as_ref().to_vec();
        let signed = token(&json!({ "alg": "EdDSA" }), &claims(), sign);
        let mut seen = Ok(String::new());
        for (text, valid) in
            [("{}".to_owned(), true), (json!({ "keys": [other] }).to_string(), false)]
        {
            std::fs::write(&jwt.file, text).expect("written");
            jwt.look(&mut seen);
            assert_eq!(name(&jwt, &signed).is_some(), valid);
        }
    }

    #[test]
    fn a_secret_is_no_key_and_the_rest_is_required() {
        for wrong in ["{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let config = |issuer: &str| JwtKeys {
            jwt_keys: Some("/no/such/file".into()),
            jwt_issuer: issuer.to_owned(),
            jwt_audience: "shop".to_owned(),
        };
        let error = |issuer| Jwt::load(&config(issuer)).expect_err("it is wrong").to_string();
        assert!(error("").contains("auth.jwt.issuer is empty"));
        assert!(error("a").contains("auth.jwt.keys: /no/such/file: No such file"));
    }
}
