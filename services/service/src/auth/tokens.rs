//! Hashes of the tokens in a file.

use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq;

/// Maximum size of the file.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of tokens. Each entry is compared with the token of every request.
const MAX_TOKENS: usize = 1000;

const MAX_NAME: usize = 64;

/// The tokens with write access.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens(Vec<Token>);

/// A token's name and hash. A fast hash without a salt is sufficient for long random tokens. NIST
/// SP 800-63B section 5.1.2.2 allows it for at least 112 bits of entropy.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    name: Arc<str>,
    hash: [u8; SHA256_OUTPUT_LEN],
}

/// Reads the text of a token file; `None` if there is no such file.
pub(crate) fn read(file: &Path) -> Result<Option<String>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = match std::fs::File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| named(&error))?,
    };
    let mut text = String::new();
    opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| named(&error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(named(&"larger than 1 MiB"));
    }
    Ok(Some(text))
}

impl Tokens {
    /// Parses the text of a file, which may contain no token. An error names the line and the
    /// expected format, but does not quote the line, which may be a token.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let (mut names, mut hashes) = (HashSet::new(), HashSet::new());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| format!("line {}: {what}", index + 1);
            let token = Token::parse(line).ok_or_else(|| {
                wrong(&format!(
                    "expected a name of at most {MAX_NAME} letters, digits, '.', '_' and '-', a \
                     space, and sha256: with the 64 hexadecimal digits of a token's SHA-256"
                ))
            })?;
            if !names.insert(Arc::clone(&token.name)) {
                return Err(wrong("a name must be unique"));
            }
            if !hashes.insert(token.hash) {
                return Err(wrong("a hash must be unique"));
            }
            tokens.push(token);
        }
        match tokens.len() {
            0..=MAX_TOKENS => Ok(Tokens(tokens)),
            n => Err(format!("{n} tokens, expected at most {MAX_TOKENS}")),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of a token. The token is compared with every entry in constant time, so that the
    /// time of a rejection reveals nothing about a hash.
    pub(crate) fn name_of(&self, token: &[u8]) -> Option<Arc<str>> {
        let hash = digest(&SHA256, token);
        let mut found = None;
        for entry in &self.0 {
            if bool::from(entry.hash.ct_eq(hash.as_ref())) {
                found = Some(&entry.name);
            }
        }
        found.cloned()
    }
}

impl Token {
    fn parse(line: &str) -> Option<Self> {
        let (name, hash) = line.split_once([' ', '\t'])?;
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if name.len() > MAX_NAME || !name.bytes().all(fits) {
            return None;
        }
        let digits = hash.trim_start().strip_prefix("sha256:")?.as_bytes();
        let mut hash = [0; SHA256_OUTPUT_LEN];
        if digits.len() != 2 * hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(value(pair[0])? * 16 + value(pair[1])?).ok()?;
        }
        Some(Token { name: name.into(), hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "abc" (the example in FIPS 180-4).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_token_is_found_by_its_hash() {
        let other = "0".repeat(64);
        let text = format!("# who\n\n  ci sha256:{ABC}  \r\nother\tsha256:{other}\n");
        let tokens = Tokens::parse(&text).expect("tokens");
        assert_eq!(tokens.len(), 2);
        assert_eq!(tokens.name_of(b"abc").as_deref(), Some("ci"));
        for wrong in ["", "ab", "abcd", "ABC", ABC] {
            assert_eq!(tokens.name_of(wrong.as_bytes()), None, "{wrong}");
        }
        let upper = Tokens::parse(&format!("ci sha256:{}", ABC.to_uppercase())).expect("tokens");
        assert_eq!(upper.name_of(b"abc").as_deref(), Some("ci"));
    }

    #[test]
    fn a_file_may_contain_no_token() {
        for text in ["", "\n", "# nobody\n\n"] {
            let tokens = Tokens::parse(text).expect("no tokens");
            assert_eq!((tokens.len(), tokens.name_of(b"abc")), (0, None), "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_line_and_never_its_content() {
        let good = format!("ci sha256:{ABC}");
        let many: String = (0..=MAX_TOKENS).map(|n| format!("n{n} sha256:{n:064x}\n")).collect();
        let cases = [
            ("secret".to_owned(), "line 1: expected"),
            (format!("\n{good}\nsecret sha256:{}", &ABC[1..]), "line 3: expected"),
            (format!("secret sha256:{ABC}0"), "line 1: expected"),
            (format!("secret sha1:{ABC}"), "line 1: expected"),
            (format!("secret sha256:{}g", &ABC[1..]), "line 1: expected"),
            (format!("{} sha256:{ABC}", "secret".repeat(11)), "line 1: expected"),
            (format!("se/cret sha256:{ABC}"), "line 1: expected"),
            (format!("{good}\nci sha256:{}", "0".repeat(64)), "line 2: a name"),
            (format!("{good}\nsecret sha256:{ABC}"), "line 2: a hash"),
            (many, "1001 tokens"),
        ];
        for (text, want) in cases {
            let error = Tokens::parse(&text).expect_err(want);
            assert!(error.contains(want), "{error}");
            assert!(!error.contains("secret") && !error.contains(ABC), "{error}");
        }
    }
}
