//! What the file servers share: their command line.

use std::path::PathBuf;

use clap::Parser;
use peers::Options;

/// The command line of a file server.
#[derive(Clone, Debug, Parser)]
pub struct FileOptions {
    /// What every peer takes.
    #[command(flatten)]
    pub options: Options,
    /// Folder to serve.
    #[arg(long)]
    pub root: PathBuf,
}
