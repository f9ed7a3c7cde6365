//! Source of a replica's metrics.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use corelane_service::http::Url;
use corelane_service::process;
use hyper::StatusCode;

use crate::exposition::Exposition;
use crate::get::{GetError, get};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Port(Url),
    File(PathBuf),
}

impl Source {
    /// The error lists the accepted forms.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains("://") {
            let url = text.parse().ok();
            let url = url.filter(|url: &Url| matches!(url.path().as_str(), "/" | "/metrics"));
            url.map(Source::Port).ok_or(
                "expected http://HOST[:PORT] of an admin port, such as http://127.0.0.1:8081",
            )
        } else {
            Ok(Source::File(text.into()))
        }
    }

    async fn read(&self) -> Result<Exposition, SourceError> {
        let read = match self {
            Source::Port(url) => scrape(url).await,
            Source::File(file) => std::fs::read_to_string(file).map_err(Why::File),
        };
        let text = read.map_err(|why| SourceError { from: self.clone(), why })?;
        Ok(Exposition::read(&text))
    }
}

async fn scrape(url: &Url) -> Result<String, Why> {
    let reply = get(url, "/metrics").await?;
    match reply.status() {
        StatusCode::OK => Ok(String::from_utf8_lossy(reply.body()).into_owned()),
        status => Err(Why::Status(status)),
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

/// The reason why a source could not be read.
#[derive(Debug, thiserror::Error)]
#[error("--from {from}: {why}")]
pub(crate) struct SourceError {
    from: Source,
    why: Why,
}

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error(transparent)]
    Port(#[from] GetError),
    #[error("the reply has status {0}, not 200")]
    Status(StatusCode),
    #[error(transparent)]
    File(std::io::Error),
}

pub(crate) fn read(
    sources: &[Source],
    window: Option<Duration>,
) -> Result<(Exposition, Exposition), Box<dyn std::error::Error>> {
    let readings = process::block_on(
        async {
            let mut before = Exposition::default();
            if let [first, .., _] = sources {
                before = first.read().await?;
            }
            let last = sources.last().expect("there is at least one");
            if let Some(window) = window {
                before = last.read().await?;
                tokio::time::sleep(window).await;
            }
            Ok::<_, SourceError>((before, last.read().await?))
        },
        false,
    );
    Ok(readings??)
}
