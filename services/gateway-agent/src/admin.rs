//! Envoy's admin interface.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::http::{ExchangeError, exchange};
use http_body_util::Empty;
use hyper::header::HOST;
use hyper::{Method, Request, StatusCode};
use tokio::time::{Instant, sleep, timeout_at};

/// Envoy serves its admin interface from the main thread, which also does other work.
const ANSWER: Duration = Duration::from_secs(5);

/// Pause before retrying an unanswered request.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("no reply from {0} in time")]
    Silent(SocketAddr),
    #[error("{0} replied {1} to {2}")]
    Refused(SocketAddr, StatusCode, String),
}

#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) address: SocketAddr,
}

impl Admin {
    pub(crate) async fn post(&self, path: &str, until: Instant) -> Result<(), AdminError> {
        loop {
            let error = match self.ask(Method::POST, path, until).await {
                Ok(_) => return Ok(()),
                Err(error @ AdminError::Refused(..)) => return Err(error),
                Err(error) => error,
            };
            if Instant::now() + PAUSE >= until {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn statistics(
        &self,
        names: &[String],
        until: Instant,
    ) -> Result<HashMap<String, u64>, AdminError> {
        let found = self.texts(names, until).await?.into_iter();
        Ok(found.filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect())
    }

    /// Like [`Admin::statistics`], but returns text for statistics that are not numbers.
    pub(crate) async fn texts(
        &self,
        names: &[String],
        until: Instant,
    ) -> Result<HashMap<String, String>, AdminError> {
        let any = names.join("|").replace('.', "\\.");
        let path = format!("/stats?filter=^({any})$").replace('\\', "%5C");
        let text = self.ask(Method::GET, &path, until).await?;
        let text = String::from_utf8_lossy(&text);
        let pairs = text.lines().filter_map(|line| line.split_once(": "));
        Ok(pairs.map(|(name, text)| (name.to_owned(), text.trim_matches('"').to_owned())).collect())
    }

    pub(crate) fn silent(&self) -> AdminError {
        AdminError::Silent(self.address)
    }

    async fn ask(&self, method: Method, path: &str, until: Instant) -> Result<Bytes, AdminError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .body(Empty::new())
            .expect("paths here are valid");
        let until = until.min(Instant::now() + ANSWER);
        let reply = timeout_at(until, exchange(self.address, request)).await;
        let reply = reply.map_err(|_| self.silent())??;
        match reply.status() {
            StatusCode::OK => Ok(reply.into_body()),
            status => Err(AdminError::Refused(self.address, status, path.to_owned())),
        }
    }
}
