//! Bearer tokens (RFC 6750) whose hashes are in a file. Cargo feature `auth`.
//!
//! The `auth.tokens` and `auth.reload` keys configure the file, which may change while the service
//! is running. [`Start::auth`](crate::Start::auth) returns the tokens, and [`Auth::lane`] returns
//! the [`Guard`] of a lane. The guard is a `tower::Layer` for the routes that need a token. Routes
//! that decide for themselves call [`Guard::check`].
//!
//! With the `jwt` Cargo feature, a JSON Web Token (RFC 7519) is also valid if a key of
//! `auth.jwt.keys` signed it. That file is a JWK set with RSA, P-256, P-384 and Ed25519 public
//! keys. The token must have the `exp`, `sub`, `iss` (`auth.jwt.issuer`) and `aud`
//! (`auth.jwt.audience`) claims. Clocks may differ by a minute.

mod claims;
mod credentials;
#[cfg(feature = "jwt")]
mod jwt;
mod metrics;
mod tokens;

use std::future::{Ready, ready};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use corelane::Problem;
use futures_util::future::{Either, MapOk, TryFutureExt};
use http::{HeaderMap, Request, Response};
use http_body_util::{Either as Body, Full};
use tower::{Layer, Service};

use crate::config::ConfigErrors;
use crate::per_lane::{Apart, PerLane};
use crate::value::{HOUR, MILLISECOND, duration, file};
pub use claims::CLAIMS;
use credentials::Refusal;
#[cfg(feature = "jwt")]
use jwt::Jwt;
#[cfg(feature = "jwt")]
pub(crate) use jwt::JwtKeys;
pub(crate) use metrics::AuthCollector;
use metrics::{Attempts, Outcome};
use tokens::Tokens;

settings! {
    /// Token file settings.
    pub(crate) struct AuthKeys {
        "auth.tokens" => auth_tokens: Option<PathBuf> = "", file,
            "File of the hashed bearer tokens that may write; empty disables writes";
        "auth.reload" => auth_reload: Duration = "1s", duration(100 * MILLISECOND, 24 * HOUR),
            "Interval at which the file of tokens is checked";
    }
}

impl AuthKeys {
    /// Loads the tokens of the file.
    pub(crate) fn load(&self, #[cfg(feature = "jwt")] jwt: &JwtKeys) -> Result<Auth, ConfigErrors> {
        let auth = Auth::load(self.auth_tokens.clone(), self.auth_reload)
            .map_err(|error| ConfigErrors(vec![format!("auth.tokens: {error}")]))?;
        #[cfg(feature = "jwt")]
        let auth = Auth { jwt: Jwt::load(jwt)?.map(|jwt| (jwt, self.auth_reload)), ..auth };
        Ok(auth)
    }
}

/// The active tokens of the process.
///
/// ```no_run
/// use axum::Router;
/// use axum::routing::{get, put};
/// use corelane_service::App;
///
/// let app = App::<()>::new("shop", "1.0.0", "Sells things");
/// app.run(|(), start| {
///     let auth = start.auth();
///     Ok(start.serve(move |_lane| {
///         let orders = put(|| async { "ordered" }).layer(auth.lane());
///         Router::new().route("/orders", orders).route("/", get(|| async { "welcome" }))
///     })?)
/// });
/// ```
#[derive(Debug, Default)]
pub struct Auth {
    current: RwLock<Arc<Tokens>>,
    /// Incremented with each change of the tokens, so that a lane takes the lock only after a
    /// change.
    generation: AtomicU64,
    attempts: PerLane<Attempts>,
    /// The source of tokens. Without a source, no client has write access.
    source: Option<Source>,
    /// The keys of JSON Web Tokens, and the interval between reads of their file.
    #[cfg(feature = "jwt")]
    jwt: Option<(Arc<Jwt>, Duration)>,
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
    /// Reads the token file, if there is one. An error names the file but never a token.
    fn load(file: Option<PathBuf>, every: Duration) -> Result<Self, String> {
        let Some(file) = file else { return Ok(Auth::default()) };
        // At start, a missing file is more likely a wrong path than a revocation.
        let text =
            tokens::read(&file)?.ok_or_else(|| format!("{}: No such file", file.display()))?;
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

    /// Creates the guard of one lane. Call this once for each lane.
    pub fn lane(self: &Arc<Self>) -> Guard {
        let generation = self.generation.load(Ordering::Acquire);
        Guard(Arc::new(Inner {
            auth: Arc::clone(self),
            attempts: self.attempts.add(Attempts::default()),
            seen: Mutex::new((generation, self.current())),
        }))
    }
}

/// The sender of a request. [`Guard`], as a layer, adds it to the extensions of the request.
#[derive(Clone, Debug)]
pub struct Caller {
    name: Arc<str>,
    /// The claims of a token that this service has verified.
    #[cfg(feature = "jwt")]
    verified: Option<Arc<serde_json::Value>>,
}

impl Caller {
    /// The name of the token in its file, or the subject (`sub`) of a JSON Web Token.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Checks the tokens of requests on one lane. As a `tower::Layer` it responds to requests without a
/// valid token with a problem document and status 401, or 400 for more than one `Authorization`
/// field.
///
/// It may be sent to another thread, as axum requires, but its metrics are exact only if it is used
/// on one thread.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    auth: Arc<Auth>,
    attempts: Arc<Apart<Attempts>>,
    /// The tokens that this lane uses, and their generation. Only this lane takes the lock.
    seen: Mutex<(u64, Arc<Tokens>)>,
}

impl Guard {
    /// Identifies the sender of a request by the request's token.
    ///
    /// # Errors
    ///
    /// Returns the response for a request without a valid token.
    pub fn check(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let found = credentials::token(headers)
            .and_then(|token| self.caller(token).ok_or(Refusal::Invalid));
        let outcome = match found {
            Ok(_) => Outcome::Accepted,
            Err(Refusal::Missing) => Outcome::Missing,
            Err(Refusal::Invalid) => Outcome::Invalid,
            Err(Refusal::Ambiguous) => Outcome::Ambiguous,
        };
        self.0.attempts.note(outcome);
        found.map_err(Refusal::problem)
    }

    fn caller(&self, token: &[u8]) -> Option<Caller> {
        let named = self.tokens().name_of(token).map(|name| Caller {
            name,
            #[cfg(feature = "jwt")]
            verified: None,
        });
        #[cfg(feature = "jwt")]
        let named = named.or_else(|| self.0.auth.jwt.as_ref()?.0.caller(token));
        named
    }

    fn tokens(&self) -> Arc<Tokens> {
        let generation = self.0.auth.generation.load(Ordering::Acquire);
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 != generation {
            *seen = (generation, self.0.auth.current());
        }
        Arc::clone(&seen.1)
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: self.clone() }
    }
}

/// A service that receives only requests with a valid token. [`Guard`] creates it.
#[derive(Clone, Debug)]
pub struct Guarded<S> {
    inner: S,
    guard: Guard,
}

/// The response of the service, or the response that rejects the request.
type Reply<B> = Response<Body<B, Full<Bytes>>>;

impl<S, A, B> Service<Request<A>> for Guarded<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Reply<B>;
    type Error = S::Error;
    type Future =
        Either<MapOk<S::Future, fn(Response<B>) -> Reply<B>>, Ready<Result<Reply<B>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        match self.guard.check(request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let allowed: fn(Response<B>) -> Reply<B> = |reply| reply.map(Body::Left);
                Either::Left(self.inner.call(request).map_ok(allowed))
            }
            Err(problem) => Either::Right(ready(Ok(problem.into_response().map(Body::Right)))),
        }
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

/// The state of the watch.
#[derive(Debug)]
struct Seen {
    /// The content that was last applied or rejected; `None` for a missing file.
    read: Result<Option<String>, String>,
    /// Whether the last read found no file.
    missing: bool,
}

impl Auth {
    /// Watches the file on a separate thread, so that a volume that hangs blocks nothing else. The
    /// whole content is compared, so that both a swapped symlink of a Kubernetes volume and an
    /// in-place write are noticed.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        #[cfg(feature = "jwt")]
        self.jwt.iter().try_for_each(|(jwt, every)| jwt.watch(*every))?;
        let Some(source) = &self.source else { return Ok(()) };
        let every = source.every;
        let mut seen = Seen { read: Ok(Some(source.text.clone())), missing: false };
        let file = source.file.display();
        match self.current().len() {
            0 => tracing::warn!(%file, "the token file has no token: all writes are rejected"),
            tokens => tracing::info!(%file, tokens, "tokens loaded"),
        }
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
    fn look(&self, seen: &mut Seen) {
        let Some(source) = &self.source else { return };
        let read = tokens::read(&source.file);
        // If the file is missing once, an editor may have removed it and not recreated it yet.
        // Kubernetes swaps a symlink atomically, so the file is never missing there.
        let missing = read == Ok(None);
        let was_missing = std::mem::replace(&mut seen.missing, missing);
        if (missing && !was_missing) || read == seen.read {
            return;
        }
        let parsed = match &read {
            Ok(text) => Tokens::parse(text.as_deref().unwrap_or_default()),
            Err(error) => Err(error.clone()),
        };
        let file = source.file.display();
        match parsed {
            Ok(tokens) => {
                match tokens.len() {
                    0 if missing => tracing::warn!(%file, "all tokens revoked: the file is gone"),
                    0 => tracing::warn!(%file, "all tokens revoked: the file has no token"),
                    tokens => tracing::info!(%file, tokens, "tokens reloaded"),
                }
                self.replace(tokens);
                source.note(Reload::Success);
            }
            Err(error) => {
                tracing::error!(%file, error, "tokens not reloaded: the previous ones stay active");
                source.note(Reload::Failure);
            }
        }
        seen.read = read;
    }
}

impl Source {
    fn note(&self, reload: Reload) {
        self.reloads[reload as usize].fetch_add(1, Ordering::Relaxed);
        self.up_to_date.store(matches!(reload, Reload::Success), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http::header::{AUTHORIZATION, HeaderValue};

    use super::*;

    /// SHA-256 of "abc" (the example in FIPS 180-4).
    const ABC: &str =
        "ci sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n";

    /// A token file, and a lane that uses it. The file is read only when a test reads it.
    struct Watched {
        _folder: tempfile::TempDir,
        file: PathBuf,
        auth: Arc<Auth>,
        lane: Guard,
        seen: Seen,
    }

    impl Watched {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("tokens");
            fs::write(&file, ABC).expect("written");
            let auth = Auth::load(Some(file.clone()), Duration::ZERO).expect("tokens");
            let auth = Arc::new(auth);
            let seen = Seen { read: Ok(Some(ABC.to_owned())), missing: false };
            Watched { _folder: folder, file, lane: auth.lane(), auth, seen }
        }

        /// Whether the token is valid after the file is reread.
        fn valid(&mut self) -> bool {
            self.auth.look(&mut self.seen);
            let headers =
                HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer abc"))]);
            self.lane.check(&headers).is_ok()
        }

        fn reloads(&self) -> [u64; 2] {
            let source = self.auth.source.as_ref().expect("a file");
            source.reloads.each_ref().map(|count| count.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_file_without_a_token_revokes_all() {
        for text in ["", "# nobody\n"] {
            let mut watched = Watched::new();
            assert!(watched.valid());
            fs::write(&watched.file, text).expect("written");
            assert!(!watched.valid(), "{text:?}");
            assert!(!watched.valid(), "{text:?}");
            assert_eq!((watched.auth.current().len(), watched.reloads()), (0, [1, 0]));
            fs::write(&watched.file, ABC).expect("written");
            assert!(watched.valid());
        }
    }

    #[test]
    fn a_file_that_is_missing_twice_in_a_row_revokes_all() {
        let mut watched = Watched::new();
        for _ in 0..2 {
            fs::remove_file(&watched.file).expect("it is there");
            assert!(watched.valid(), "missing once");
            fs::write(&watched.file, ABC).expect("written");
            assert!(watched.valid());
        }
        assert_eq!(watched.reloads(), [0, 0]);
        fs::remove_file(&watched.file).expect("it is there");
        assert!(watched.valid(), "missing once");
        assert!(!watched.valid(), "missing twice");
        assert!(!watched.valid());
        assert_eq!((watched.auth.current().len(), watched.reloads()), (0, [1, 0]));
        fs::write(&watched.file, ABC).expect("written");
        assert!(watched.valid());
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing() {
        let mut watched = Watched::new();
        fs::remove_file(&watched.file).expect("it is there");
        fs::create_dir(&watched.file).expect("a folder");
        assert!(watched.valid());
        assert!(watched.valid());
        assert_eq!(watched.reloads(), [0, 1]);
    }
}
