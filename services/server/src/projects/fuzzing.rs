//! Implementation of `crate::fuzzing`.

use bytes::Bytes;

use super::conditions::{Conditions, Verdict};
use super::document;
use super::json::Node;
use super::store::Version;

pub(crate) fn document(text: &[u8]) -> Option<Vec<u8>> {
    // Both validators agree.
    assert_eq!(document::is_one(text), document::has_no_fault(text));
    document::validate(Bytes::copy_from_slice(text)).ok().map(Vec::from)
}

pub(crate) fn say_the_same(one: &[u8], other: &[u8]) -> bool {
    matches!((Node::parse(one), Node::parse(other)), (Ok(one), Ok(other)) if one == other)
}

pub(crate) fn conditions(
    if_match: &[u8],
    if_none_match: &[u8],
    version: i64,
) -> Option<(bool, bool)> {
    let conditions = Conditions::parse(if_match, if_none_match)?;
    let proceeds = |read| conditions.evaluate(Version(version), read) == Verdict::Proceed;
    Some((proceeds(true), proceeds(false)))
}
