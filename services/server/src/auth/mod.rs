//! Authentication of writes: bearer tokens (RFC 6750) whose hashes are in a file.

mod credentials;
mod metrics;
mod tokens;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use corelane::Problem;
use http::HeaderMap;

use crate::per_lane::{Apart, PerLane};
use credentials::Refusal;
pub(crate) use metrics::AuthCollector;
use metrics::{Attempts, Outcome};
use tokens::Tokens;

/// The active tokens of the process.
#[derive(Debug, Default)]
pub(crate) struct Auth {
    current: RwLock<Arc<Tokens>>,
    /// Incremented with each change of the tokens, so that a lane takes the lock only after one.
    generation: AtomicU64,
    attempts: PerLane<Attempts>,
    /// The source of tokens. Without one, nobody has write access.
    source: Option<Source>,
}

#[derive(Debug)]
struct Source {
    file: PathBuf,
    /// Interval between reads of the file.
    every: Duration,
    /// The initial content.
    text: String,
    reloads: [AtomicU64; 2],
    up_to_date: AtomicBool,
}

impl Auth {
    /// Reads the token file, if there is one. An error names the file, and never a token.
    pub(crate) fn load(file: Option<PathBuf>, every: Duration) -> Result<Self, String> {
        let Some(file) = file else { return Ok(Auth::default()) };
        let text = tokens::read(&file)?;
        let tokens =
            Tokens::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let source =
            Source { file, every, text, reloads: Default::default(), up_to_date: true.into() };
        Ok(Auth { current: RwLock::new(Arc::new(tokens)), source: Some(source), ..Auth::default() })
    }

    fn current(&self) -> Arc<Tokens> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, tokens: Tokens) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The guard of one lane.
    pub(crate) fn lane(self: &Arc<Self>) -> Guard {
        let generation = self.generation.load(Ordering::Acquire);
        Guard {
            auth: Arc::clone(self),
            attempts: self.attempts.add(Attempts::default()),
            seen: RefCell::new((generation, self.current())),
        }
    }
}

/// Checks the tokens of requests on one lane.
#[derive(Debug)]
pub(crate) struct Guard {
    auth: Arc<Auth>,
    attempts: Arc<Apart<Attempts>>,
    /// The tokens that this lane uses, and their generation.
    seen: RefCell<(u64, Arc<Tokens>)>,
}

impl Guard {
    /// The name of a request's token, or the reply that rejects it.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<Arc<str>, Problem> {
        let found = credentials::token(headers)
            .and_then(|token| self.tokens().name_of(token).ok_or(Refusal::Invalid));
        let outcome = match found {
            Ok(_) => Outcome::Accepted,
            Err(Refusal::Missing) => Outcome::Missing,
            Err(Refusal::Invalid) => Outcome::Invalid,
            Err(Refusal::Ambiguous) => Outcome::Ambiguous,
        };
        self.attempts.note(outcome);
        found.map_err(Refusal::problem)
    }

    fn tokens(&self) -> Arc<Tokens> {
        let generation = self.auth.generation.load(Ordering::Acquire);
        let mut seen = self.seen.borrow_mut();
        if seen.0 != generation {
            *seen = (generation, self.auth.current());
        }
        Arc::clone(&seen.1)
    }
}

/// The result of a reload.
#[derive(Clone, Copy, Debug)]
enum Reload {
    Success,
    Failure,
}

impl Reload {
    const ALL: [(Reload, &'static str); 2] =
        [(Reload::Success, "success"), (Reload::Failure, "failure")];
}

impl Auth {
    /// Watches the file on a separate thread, so that a volume that hangs blocks nothing else. The
    /// whole content is compared, so that a swapped symlink of a Kubernetes volume is noticed like
    /// a write in place.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let (every, mut seen) = (source.every, Ok(source.text.clone()));
        tracing::info!(
            file = %source.file.display(), tokens = self.current().len(), "tokens loaded"
        );
        let auth = Arc::clone(self);
        let watch = move || {
            loop {
                std::thread::sleep(every);
                auth.look(&mut seen);
            }
        };
        std::thread::Builder::new().name("tokens".to_owned()).spawn(watch).map(drop)
    }

    /// Applies the file's content if it is new. Content that was rejected is not checked again.
    fn look(&self, seen: &mut Result<String, String>) {
        let Some(source) = &self.source else { return };
        let read = tokens::read(&source.file);
        if read == *seen {
            return;
        }
        let parsed = read.as_deref().map_err(Clone::clone).and_then(Tokens::parse);
        let file = source.file.display();
        match parsed {
            Ok(tokens) => {
                tracing::info!(%file, tokens = tokens.len(), "tokens reloaded");
                self.replace(tokens);
                source.note(Reload::Success);
            }
            Err(error) => {
                tracing::error!(%file, error, "tokens not reloaded: the former ones stay active");
                source.note(Reload::Failure);
            }
        }
        *seen = read;
    }
}

impl Source {
    fn note(&self, reload: Reload) {
        self.reloads[reload as usize].fetch_add(1, Ordering::Relaxed);
        self.up_to_date.store(matches!(reload, Reload::Success), Ordering::Relaxed);
    }
}
