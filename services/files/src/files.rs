//! The files of one lane: served from memory, or read from disk on another thread.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderMap, Method, Response, StatusCode};
use tokio::sync::watch;
use tokio::task::{spawn_blocking, spawn_local};

use crate::beneath;
use crate::body::Body;
use crate::cache::{Cache, Moment};
use crate::disk::{Disk, Finding};
use crate::path;
use crate::reply::{overloaded, reply, status, to_folder};
use crate::resource::Resource;
use crate::rules::Rules;

/// Milliseconds between checks of a file in use. If the last check is older than [`STALE`], the
/// file is served only after another check.
const FRESH: u64 = 400;

/// Maximum age of a served version, not counting disk time.
const STALE: u64 = 900;

/// Maximum concurrent lookups. Lookups continue after their clients disconnect, so their number
/// would grow without limit on a disk that hangs.
const SEARCHES: usize = 256;

// A change must be visible within a second.
const _: () = assert!(FRESH < STALE && STALE < 1000);

/// The folder of [`Files`] and its cache settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder, looked up each time, because a symlink in its path may change its target.
    pub root: PathBuf,
    /// Maximum bytes of cached files; 0 disables the cache.
    pub cache_bytes: u64,
    /// Maximum size of a cached file; larger files are read while they are sent.
    pub cache_file_bytes: u64,
    /// Cache-Control rules.
    pub cache_control: Rules,
}

/// A response, or a future that reads from disk.
pub enum Answer {
    /// A response from memory.
    Ready(Response<Body>),
    /// A future that reads from disk.
    Later(Pin<Box<dyn Future<Output = Response<Body>>>>),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Ready(reply) => f.debug_tuple("Ready").field(reply).finish(),
            Answer::Later(_) => f.write_str("Later"),
        }
    }
}

/// The files of one lane.
///
/// It belongs to one thread with a tokio `LocalRuntime` or `LocalSet`, whose blocking threads run
/// blocking calls. An error response has no body: the caller adds one and keeps the headers.
#[derive(Clone, Debug)]
pub struct Files(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    disk: Arc<Disk>,
    cache: RefCell<Cache>,
    /// Paths that are being looked up, with the requests that wait for them.
    searches: RefCell<HashMap<Box<str>, Outcome>>,
}

/// `None` until the lookup ends.
type Outcome = watch::Receiver<Option<Found>>;

#[derive(Clone, Debug)]
enum Found {
    File(Rc<Resource>),
    Folder,
    Nothing,
    Failed,
}

impl Files {
    /// Serves the files below a folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened.
    pub fn new(settings: &Settings) -> io::Result<Files> {
        beneath::folder(&settings.root)?;
        let disk = Disk {
            root: settings.root.clone(),
            small: settings.cache_file_bytes,
            rules: settings.cache_control.clone(),
        };
        Ok(Files(Rc::new(Inner {
            disk: Arc::new(disk),
            cache: RefCell::new(Cache::new(settings.cache_bytes)),
            searches: RefCell::default(),
        })))
    }

    /// Responds to a GET or HEAD. `target` is a path relative to the root, still percent-encoded,
    /// with the request's query if it has one. Only a redirect to a folder uses the query, and the
    /// redirect keeps it. Cached files need no disk access, system call or future. The response
    /// reuses the request's header map.
    pub fn get(&self, target: &str, method: &Method, headers: HeaderMap) -> Answer {
        let (path, query) =
            target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        // An unencoded path is its own cache key, and it was checked when the file was cached.
        if !path.contains('%')
            && let Some(resource) = self.kept(path)
        {
            return Answer::Ready(reply(&resource, method, headers));
        }
        let Some(path) = path::normal(path) else {
            return Answer::Ready(status(StatusCode::NOT_FOUND));
        };
        if let Cow::Owned(path) = &path
            && let Some(resource) = self.kept(path)
        {
            return Answer::Ready(reply(&resource, method, headers));
        }
        let Some(search) = self.search(&path) else { return Answer::Ready(overloaded()) };
        let (path, query, method) = (path.into_owned(), query.map(str::to_owned), method.clone());
        Answer::Later(Box::pin(async move {
            match found(search).await {
                Found::File(resource) => reply(&resource, &method, headers),
                Found::Folder => to_folder(&path, query.as_deref()),
                Found::Nothing => status(StatusCode::NOT_FOUND),
                Found::Failed => status(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }))
    }

    /// A cached file that is known to match the disk.
    fn kept(&self, path: &str) -> Option<Rc<Resource>> {
        let mut cache = self.0.cache.borrow_mut();
        let kept = cache.get(path)?;
        let age = Moment::now().millis_since(kept.seen);
        if age > STALE {
            return None;
        }
        let resource = Rc::clone(&kept.resource);
        if age > FRESH {
            drop(cache);
            let _ = self.search(path);
        }
        Some(resource)
    }

    /// Starts a lookup or joins the current one. Returns `None` if there are too many lookups.
    fn search(&self, path: &str) -> Option<Outcome> {
        // A lookup that panicked sent no result.
        let goes_on = |outcome: &Outcome| outcome.has_changed().is_ok();
        let mut searches = self.0.searches.borrow_mut();
        if let Some(outcome) = searches.get(path).filter(|outcome| goes_on(outcome)) {
            return Some(outcome.clone());
        }
        if searches.len() >= SEARCHES {
            searches.retain(|_, outcome| goes_on(outcome));
            if searches.len() >= SEARCHES {
                return None;
            }
        }
        let (found, outcome) = watch::channel(None);
        searches.insert(path.into(), outcome.clone());
        let (inner, path) = (Rc::clone(&self.0), path.to_owned());
        spawn_local(async move {
            found.send_replace(Some(inner.look_up(&path).await));
            inner.searches.borrow_mut().remove(path.as_str());
        });
        Some(outcome)
    }
}

async fn found(mut outcome: Outcome) -> Found {
    let found = outcome.wait_for(Option::is_some).await;
    // A lookup ends without a result only if it panicked.
    found.ok().and_then(|found| found.clone()).unwrap_or(Found::Failed)
}

impl Inner {
    async fn look_up(&self, path: &str) -> Found {
        let before = self.cache.borrow().peek(path).map(|kept| Rc::clone(&kept.resource));
        let known = before.as_ref().map(|resource| resource.known.clone());
        let (disk, name, begun) = (Arc::clone(&self.disk), path.to_owned(), Moment::now());
        let finding = spawn_blocking(move || disk.find(&name, known.as_ref())).await;
        let finding = finding.unwrap_or_else(|error| Err(io::Error::other(error)));
        let mut cache = self.cache.borrow_mut();
        let found = match (finding, before) {
            (Ok(Finding::Same), Some(resource)) => {
                cache.confirm(path, begun);
                return Found::File(resource);
            }
            (Ok(Finding::File(resource)), _) => {
                let resource = Rc::from(resource);
                cache.keep(path, &resource, begun);
                return Found::File(resource);
            }
            (Ok(Finding::Folder), _) => Found::Folder,
            (Ok(Finding::Nothing | Finding::Same), _) => Found::Nothing,
            (Err(error), _) => {
                tracing::error!(path, %error, "a file cannot be read");
                Found::Failed
            }
        };
        cache.forget(path);
        found
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use http::header::{ACCEPT_ENCODING, ETAG, HeaderValue, LOCATION, RETRY_AFTER};
    use http_body_util::BodyExt;
    use tokio::runtime::LocalRuntime;

    use super::*;

    /// Runs a test on its own event loop with the files in a new folder.
    fn with_files<F: Future>(test: impl FnOnce(Files, PathBuf) -> F) {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            root: folder.path().to_owned(),
            cache_bytes: 1 << 20,
            cache_file_bytes: 1 << 16,
            cache_control: Rules::default(),
        };
        let files = Files::new(&settings).expect("files");
        let runtime = LocalRuntime::new().expect("an event loop");
        runtime.block_on(test(files, folder.path().to_owned()));
    }

    fn get(files: &Files, path: &str) -> Answer {
        files.get(path, &Method::GET, HeaderMap::new())
    }

    /// Requests a cached file as if its last check were `age` ago, however slow the machine is.
    fn get_aged(files: &Files, path: &str, age: u64) -> Answer {
        loop {
            let seen = Moment::now().millis_before(age);
            files.0.cache.borrow_mut().confirm("file", seen);
            let answer = get(files, path);
            if Moment::now().millis_since(seen) <= STALE {
                return answer;
            }
        }
    }

    async fn later(answer: Answer) -> Response<Body> {
        match answer {
            Answer::Later(reply) => reply.await,
            Answer::Ready(_) => panic!("the disk has not been asked"),
        }
    }

    #[test]
    fn a_file_is_answered_at_once_when_it_is_kept() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            assert_eq!(later(get(&files, "file")).await.status(), StatusCode::OK);
            let Answer::Ready(reply) = get_aged(&files, "file", 0) else { panic!("it is kept") };
            let body = reply.into_body().collect().await.expect("a body");
            assert_eq!(body.to_bytes(), "content");
            // A query does not matter, and another encoding of the path finds the same file.
            assert!(matches!(get_aged(&files, "file?x=%1", 0), Answer::Ready(_)));
            assert!(matches!(get_aged(&files, "%66ile", 0), Answer::Ready(_)));
        });
    }

    #[test]
    fn an_etag_is_the_same_on_every_replica_and_toolchain() {
        with_files(|files, root| async move {
            for (path, content) in [
                ("empty", &b""[..]),
                ("app.js", b"console.log(1)\n"),
                ("app.js.gz", b"a copy"),
                ("bytes", &[0xff; 4096]),
            ] {
                fs::write(root.join(path), content).expect("a file");
            }
            for (path, coding, etag) in [
                ("empty", "", "\"0-d1fba762150c532c\""),
                ("app.js", "", "\"f-b2efef45c30d1b88\""),
                ("app.js", "gzip", "\"6-cbb561ee8c0f9999.gz\""),
                ("bytes", "", "\"1000-04726d68ee969286\""),
            ] {
                let accepted = (ACCEPT_ENCODING, HeaderValue::from_static(coding));
                let fields = HeaderMap::from_iter([accepted]);
                let reply = match files.get(path, &Method::GET, fields) {
                    Answer::Ready(reply) => reply,
                    Answer::Later(reply) => reply.await,
                };
                assert_eq!(reply.headers()[ETAG], etag, "{path} {coding}");
            }
        });
    }

    #[test]
    fn requests_for_one_path_ask_the_disk_once() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            let asked: Vec<_> = (0..10).map(|_| get(&files, "file")).collect();
            assert_eq!(files.0.searches.borrow().len(), 1);
            for answer in asked {
                assert_eq!(later(answer).await.status(), StatusCode::OK);
            }
            assert!(files.0.searches.borrow().is_empty());
        });
    }

    #[test]
    fn searches_are_bounded_though_their_clients_leave() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            later(get(&files, "file")).await;
            for number in 0..SEARCHES {
                drop(get(&files, &format!("none-{number}")));
            }
            let Answer::Ready(refused) = get(&files, "one-more") else { panic!("too many") };
            assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(refused.headers()[RETRY_AFTER], "1");
            // Cached and concurrent requests are answered.
            assert!(matches!(get_aged(&files, "file", FRESH + 1), Answer::Ready(_)));
            let joined = later(get(&files, "none-0")).await;
            assert_eq!(joined.status(), StatusCode::NOT_FOUND);
            while !files.0.searches.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            assert_eq!(later(get(&files, "one-more")).await.status(), StatusCode::NOT_FOUND);
        });
    }

    #[test]
    fn one_that_leaves_does_not_end_the_search_of_the_others() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            let (first, second) = (get(&files, "file"), get(&files, "file"));
            drop(first);
            assert_eq!(later(second).await.status(), StatusCode::OK);
        });
    }

    #[test]
    fn what_is_not_there_is_not_kept() {
        with_files(|files, root| async move {
            fs::create_dir(root.join("folder")).expect("a folder");
            for number in 0..100 {
                let reply = later(get(&files, &format!("none-{number}"))).await;
                assert_eq!(reply.status(), StatusCode::NOT_FOUND);
            }
            let redirected = later(get(&files, "folder")).await;
            assert_eq!(redirected.status(), StatusCode::PERMANENT_REDIRECT);
            // A name that only ends like an index is not an index, and neither is a folder.
            fs::create_dir_all(root.join("myindex.html/index.html")).expect("folders");
            let redirected = later(get(&files, "myindex.html")).await;
            assert_eq!(redirected.headers()[LOCATION], "./myindex.html/");
            let redirected = later(get(&files, "folder?x=1&y=%2F?/")).await;
            assert_eq!(redirected.headers()[LOCATION], "./folder/?x=1&y=%2F?/");
            let index = later(get(&files, "myindex.html/")).await;
            assert_eq!(index.status(), StatusCode::NOT_FOUND);
            assert!(files.0.searches.borrow().is_empty());
            assert!(files.0.cache.borrow().is_empty());
        });
    }

    #[test]
    fn one_that_was_not_looked_at_for_long_is_looked_at_first() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            later(get(&files, "file")).await;
            let long_ago = Moment::now().millis_before(STALE + 1);
            files.0.cache.borrow_mut().confirm("file", long_ago);
            fs::remove_file(root.join("file")).expect("it is there");
            assert_eq!(later(get(&files, "file")).await.status(), StatusCode::NOT_FOUND);
        });
    }

    #[test]
    fn one_that_was_not_looked_at_of_late_is_looked_at_meanwhile() {
        with_files(|files, root| async move {
            fs::write(root.join("file"), "content").expect("a file");
            later(get(&files, "file")).await;
            let before = Moment::now();
            assert!(matches!(get_aged(&files, "file", FRESH + 1), Answer::Ready(_)));
            let outcome = files.0.searches.borrow()["file"].clone();
            assert!(matches!(found(outcome).await, Found::File(_)));
            assert!(files.0.cache.borrow().peek("file").is_some_and(|kept| kept.seen >= before));
        });
    }
}
