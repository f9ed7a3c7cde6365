//! Where the series of a replica are read from.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::exposition::Exposition;
use super::fetch::{FetchError, Url, fetch};

/// An admin port, or a file with what one showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Port(Url),
    File(PathBuf),
}

impl Source {
    /// Reads a URL or the name of a file; the error says what is allowed.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") {
            Url::parse(text).map(Source::Port)
        } else {
            Ok(Source::File(text.into()))
        }
    }

    async fn read(&self) -> Result<Exposition, SourceError> {
        let why = |why| SourceError { from: self.clone(), why };
        match self {
            Source::Port(url) => fetch(url).await.map_err(|error| why(Why::Port(error))),
            Source::File(file) => match std::fs::read_to_string(file) {
                Ok(text) => Ok(Exposition::read(&text)),
                Err(error) => Err(why(Why::File(error))),
            },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Port(url) => write!(f, "{url}"),
            Source::File(file) => write!(f, "{}", file.display()),
        }
    }
}

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
#[error("--from {from}: {why}")]
pub(crate) struct SourceError {
    from: Source,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Port(FetchError),
    #[error(transparent)]
    File(std::io::Error),
}

/// Reads one source, or two, or one at both ends of a window: what was before, and what is now.
pub(crate) fn read(
    sources: &[Source],
    window: Option<Duration>,
) -> Result<(Exposition, Exposition), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let readings = runtime.block_on(async {
        let mut before = Exposition::default();
        if let [first, .., _] = sources {
            before = first.read().await?;
        }
        let last = sources.last().expect("it is called with one");
        if let Some(window) = window {
            before = last.read().await?;
            tokio::time::sleep(window).await;
        }
        Ok::<_, SourceError>((before, last.read().await?))
    });
    Ok(readings?)
}
