//! Documents of projects: the stored text is equivalent to the input, and is a valid document.

use corelane_server::fuzzing::{document, say_the_same};

pub(super) fn run(text: &[u8]) {
    let Some(stored) = document(text) else { return };
    assert!(stored.len() <= text.len());
    assert!(stored.starts_with(b"{\"") && stored.ends_with(b"}"), "it is spliced into replies");
    assert!(say_the_same(text, &stored));
    assert_eq!(document(&stored).as_deref(), Some(stored.as_slice()));
}
