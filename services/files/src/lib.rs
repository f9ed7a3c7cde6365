//! Static files for one lane: serves small files from memory and large files in constant memory.
//!
//! [`Files`] serves GET and HEAD requests for the files of a folder, with validators, conditional
//! and range requests (RFC 9110 sections 13 and 14), and precompressed copies (`.br`, `.zst`, `.gz`
//! next to a file). It lists no folders and serves no dotfiles except in `.well-known`. No path or
//! symlink leads out of the root.
//!
//! Files up to [`Settings::cache_file_bytes`] are cached with their response headers. A file in use
//! is checked on disk twice a second, off the lane. A file that was not requested in the last
//! second is checked before it is served. No response therefore contains a file that was replaced
//! more than a second ago.

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
mod stamp;

pub use body::Body;
pub use files::{Answer, Files, Settings};
pub use reply::to_folder;
pub use rules::Rules;
