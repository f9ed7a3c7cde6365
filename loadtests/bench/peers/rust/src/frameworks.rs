//! Code that the frameworks' servers share: their command line and their allocator.

use std::path::PathBuf;

use crate::Options;
use clap::Parser;

/// The allocator of corelane-server, so that no server has an advantage. The TechEmpower
/// entry of may_minihttp also uses it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Media type of `/hello`, `/div` and `/work`, as in the reference service.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// The command line of a framework's server.
#[derive(Clone, Debug, Parser)]
pub struct Command {
    /// The options of every peer.
    #[command(flatten)]
    pub options: Options,
    /// Folder served below /static/.
    #[arg(long = "static", value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}
