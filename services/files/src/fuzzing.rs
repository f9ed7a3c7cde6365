//! Entry points for the fuzz targets.

use std::ops::Range;

use crate::range::{Selection, select};

/// The decoded path, if it may be served.
pub fn normal(raw: &str) -> Option<String> {
    crate::path::normal(raw).map(|path| path.into_owned())
}

/// The parts selected by a Range: `None` for the entire file, an empty list for a rejection.
pub fn parts(value: &[u8], length: u64) -> Option<Vec<Range<u64>>> {
    match select(value, length) {
        Selection::Whole => None,
        Selection::Parts(parts) => Some(parts),
        Selection::Refused => Some(Vec::new()),
    }
}
