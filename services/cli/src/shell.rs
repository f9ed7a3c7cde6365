//! Quotes words for command lines that a user may copy.

/// Turns a line break into a comma, because the command must fit on one line.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:%=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''").replace('\n', ", "))
}
