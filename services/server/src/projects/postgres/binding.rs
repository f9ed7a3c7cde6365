//! Channel binding: proof that the password was checked on the connection that TLS protects.
//!
//! With SCRAM-SHA-256-PLUS (RFC 7677) a server in the middle is detected even without verified
//! certificates.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The binding `tls-server-end-point` (RFC 5929 section 4.1): the hash of the certificate, by the
/// hash function of its signature.
pub(super) fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = Certificate::from_der(certificate).ok()?;
    let algorithm = algorithm(&parsed.signature_algorithm().oid.to_string())?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

/// By object identifier (RFC 4055, RFC 5758). MD5 and SHA-1 count as SHA-256. Signatures without a
/// separate hash function, such as Ed25519, have no binding.
fn algorithm(signature: &str) -> Option<&'static Algorithm> {
    match signature {
        "1.2.840.113549.1.1.4"
        | "1.2.840.113549.1.1.5"
        | "1.2.840.10045.4.1"
        | "1.2.840.113549.1.1.11"
        | "1.2.840.10045.4.3.2" => Some(&SHA256),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(&SHA384),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(&SHA512),
        _ => None,
    }
}
