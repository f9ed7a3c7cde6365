//! What the frameworks' servers share: their command line, their allocator and their projects.

mod projects;

use std::path::PathBuf;

use clap::Parser;
use peers::Options;

pub use projects::{Projects, Reply};

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
    /// The PostgreSQL that keeps projects: postgres://USER:PASSWORD@HOST:PORT/NAME.
    #[arg(long, requires = "token")]
    pub database: Option<String>,
    /// The bearer token of who may write projects.
    #[arg(long)]
    pub token: Option<String>,
}

impl Command {
    /// The projects as one of `sharers` event loops serves them, if there is a database.
    pub fn projects(&self, sharers: usize) -> Result<Option<Projects>, tokio_postgres::Error> {
        let Some(database) = &self.database else { return Ok(None) };
        let token = self.token.as_deref().unwrap_or_default();
        Projects::new(&database.parse()?, token, sharers).map(Some)
    }
}
