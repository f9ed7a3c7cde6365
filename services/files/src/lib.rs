//! Static files for one lane of a server: small ones from memory, large ones in constant memory.
//!
//! [`Files`] answers GET and HEAD for the files of a folder with validators, conditional and range
//! requests (RFC 9110 sections 13 and 14) and copies that were compressed before (`.br`, `.zst`,
//! `.gz` beside a file). It lists no folders, serves no dotfiles but those of `.well-known`, and
//! leaves its root by no path and no symlink.
//!
//! Files up to [`Settings::cache_file_bytes`] are kept in memory with the header fields of their
//! replies. While one is asked for, the disk is asked about twice a second, beside the lane,
//! whether it is still the same. One that nobody asked for in the last second is looked at before
//! it is served again: no reply shows a file that was another for longer than a second.

mod beneath;
mod body;
mod cache;
mod conditions;
mod disk;
mod encoding;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod path;
mod range;
mod reply;
mod resource;
mod rules;

pub use body::Body;
pub use files::{Answer, Files, Settings};
pub use rules::Rules;
