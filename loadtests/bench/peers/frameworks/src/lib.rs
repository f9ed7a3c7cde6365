//! What the frameworks' servers share: their command line and their allocator.

use std::path::PathBuf;

use clap::Parser;
use peers::Options;

/// That of corelane-server, so that none gains or loses by it; TechEmpower's entries of may_minihttp
/// and ntex have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Media type of `/hello`, `/div` and `/work`, as the reference service has it.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// The command line of a framework's server.
#[derive(Clone, Debug, Parser)]
pub struct Command {
    /// What every peer takes.
    #[command(flatten)]
    pub options: Options,
    /// The files of this folder are below /static/.
    #[arg(long = "static", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}
