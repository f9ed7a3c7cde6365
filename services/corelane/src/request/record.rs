//! Request records, which hold the id, trace and durations for observers.
//!
//! Records are boxed, so a request without a record needs only one word. Boxes are reused.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderValue, Request, StatusCode, Version};
use http_body::Body;

use crate::base::clock::{Millis, Tick};
use crate::base::random::Identifiers;
use crate::base::settings::Traces;
use crate::load::lane::Lane;
use crate::message::remaining::{REMAINING_FIELD, remaining};
use crate::message::request_id::{ID_FIELD, Id};
use crate::message::trace_context::{PARENT_FIELD, TraceContext};
use crate::metrics::kind::KindIndex;
use crate::request::finished::{Cut, Finished, Observer, Span, Times};
use crate::request::routes::Routes;

const SPARE: usize = 256;

#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) id: Option<Id>,
    pub(crate) trace: Option<TraceContext>,
    /// Time for which the caller waits for the response.
    pub(crate) remaining: Millis,
    client: Option<IpAddr>,
    span: Option<OwnSpan>,
    kind: KindIndex,
    version: Version,
    begun: Tick,
    /// Nanoseconds from accepting the connection to the start of the request.
    accept: Option<u64>,
    started: Option<Tick>,
    made: Option<Tick>,
    status: Option<StatusCode>,
    body_bytes: u64,
    whole: bool,
    cut: Option<Cut>,
}

#[derive(Debug)]
struct OwnSpan {
    parent: Option<[u8; 8]>,
    authority: Option<HeaderValue>,
}

impl RequestRecord {
    /// The trace id, if the trace is being recorded.
    pub(crate) fn recorded_trace(&self) -> Option<[u8; 16]> {
        self.trace.as_ref().filter(|it| it.is_sampled()).map(TraceContext::trace_id)
    }

    /// Records that the handler is starting.
    pub(crate) fn start(&mut self, now: Tick) {
        self.started = Some(now);
    }

    pub(crate) fn set_kind(&mut self, kind: KindIndex) {
        self.kind = kind;
    }

    pub(crate) fn answer(&mut self, status: StatusCode, now: Tick) {
        (self.status, self.made) = (Some(status), Some(now));
        // hyper neither sends nor polls a body for these responses.
        self.whole = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    }

    /// Records that the response body has produced `bytes` bytes. `whole` means that it has ended.
    pub(crate) fn give(&mut self, bytes: usize, whole: bool) {
        self.body_bytes += bytes as u64;
        self.whole |= whole;
    }

    pub(crate) fn set_cut(&mut self, cut: Option<Cut>) {
        self.cut = self.cut.or(cut);
    }

    pub(crate) fn named(&self) -> Box<RequestRecord> {
        let (id, trace) = (self.id.clone(), self.trace.clone());
        Box::new(RequestRecord {
            id,
            trace,
            ..RequestRecord::new(self.kind, self.version, self.begun)
        })
    }

    pub(crate) fn new(kind: KindIndex, version: Version, begun: Tick) -> RequestRecord {
        RequestRecord {
            id: None,
            trace: None,
            remaining: Millis::MAX,
            client: None,
            span: None,
            kind,
            version,
            begun,
            accept: None,
            started: None,
            made: None,
            status: None,
            body_bytes: 0,
            whole: false,
            cut: None,
        }
    }

    fn begin(&mut self, kind: KindIndex, version: Version, begun: Tick) {
        (self.kind, self.version, self.begun) = (kind, version, begun);
        self.remaining = Millis::MAX;
        (self.accept, self.started, self.made, self.status) = (None, None, None, None);
        (self.body_bytes, self.whole, self.cut) = (0, false, None);
    }

    /// `write` is the time that writing the response took, if it was written.
    fn times(&self, write: Option<u64>) -> Times {
        let between = |from: Tick, to: Tick| Duration::from_nanos(to.since(from));
        let made = self.made.unwrap_or_else(Tick::now);
        Times {
            accept: self.accept.map(Duration::from_nanos),
            queue: between(self.begun, self.started.unwrap_or(made)),
            handler: self.started.map(|started| between(started, made)),
            write: write.map(Duration::from_nanos),
        }
    }

    fn finished<'a>(&'a self, route: &'a str, write: Option<u64>) -> Finished<'a> {
        let span = self.span.as_ref();
        Finished {
            method: self.kind.method_name(),
            route,
            version: self.version,
            status: self.status,
            complete: self.whole && write.is_some() && !self.cut.is_some_and(Cut::ends_reply),
            body_bytes: self.body_bytes,
            cut: self.cut,
            times: self.times(write),
            id: self.id.as_ref(),
            trace: self.trace.as_ref(),
            client: self.client,
            span: span.map(|span| Span { parent: span.parent, authority: span.authority.as_ref() }),
            begun: self.begun,
        }
    }
}

pub(crate) struct RequestRecords {
    lane: Lane,
    routes: Arc<Routes>,
    ids: bool,
    traces: Traces,
    clients: bool,
    observer: Option<Observer>,
    identifiers: Identifiers,
    #[expect(
        clippy::vec_box,
        reason = "a request_record stays where it is while requests come and go"
    )]
    spare: RefCell<Vec<Box<RequestRecord>>>,
}

impl fmt::Debug for RequestRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestRecords")
            .field("ids", &self.ids)
            .field("traces", &self.traces)
            .finish()
    }
}

impl RequestRecords {
    pub(crate) fn new(
        ids: bool,
        traces: Traces,
        clients: bool,
        observer: Option<Observer>,
        lane: &Lane,
        routes: &Arc<Routes>,
    ) -> Option<Self> {
        let wanted = ids || traces != Traces::Off || observer.is_some();
        wanted.then(|| RequestRecords {
            lane: lane.clone(),
            routes: Arc::clone(routes),
            ids,
            traces,
            clients: clients && observer.is_some(),
            observer,
            identifiers: Identifiers::new(),
            spare: RefCell::default(),
        })
    }

    pub(crate) fn names(&self) -> bool {
        self.ids
    }

    /// Tracks a request that began at `begun`, `accept` nanoseconds after its connection was
    /// accepted. `client` determines the client's address for observers that need it.
    pub(crate) fn follow<B: Body>(
        &self,
        request: &Request<B>,
        kind: KindIndex,
        begun: Tick,
        accept: Option<u64>,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Box<RequestRecord> {
        let spare = self.spare.borrow_mut().pop();
        let mut request_record =
            spare.unwrap_or_else(|| Box::new(RequestRecord::new(kind, request.version(), begun)));
        request_record.begin(kind, request.version(), begun);
        request_record.accept = accept;
        request_record.client = if self.clients { client() } else { None };
        // One pass over the fields is cheaper than a lookup by name, which hashes it.
        let (mut theirs, mut traced) = (None, false);
        for (name, value) in request.headers() {
            match name.as_str() {
                ID_FIELD => theirs = theirs.or(Some(value)),
                PARENT_FIELD => traced = true,
                REMAINING_FIELD => request_record.remaining = remaining(value),
                _ => {}
            }
        }
        if self.ids {
            let id = theirs.and_then(Id::taken);
            request_record.id = Some(id.unwrap_or_else(|| Id::Made(self.identifiers.wide())));
        }
        if self.traces != Traces::Off {
            request_record.trace = traced.then(|| TraceContext::read(request.headers())).flatten();
            self.place(&mut request_record, request);
        }
        request_record
    }

    fn place<B>(&self, request_record: &mut RequestRecord, request: &Request<B>) {
        let Traces::Record { ratio } = self.traces else { return };
        let parent = match &request_record.trace {
            Some(theirs) if !theirs.is_sampled() => return,
            Some(theirs) => Some(theirs.span_id()),
            None if !self.identifiers.falls_to(ratio) => return,
            None => None,
        };
        let own = self.identifiers.narrow();
        request_record.trace = Some(match request_record.trace.take() {
            Some(theirs) => theirs.below(own),
            None => TraceContext::begin(self.identifiers.wide(), own),
        });
        let authority = match request.uri().authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => request.headers().get(HOST).cloned(),
        };
        request_record.span = Some(OwnSpan { parent, authority });
    }

    /// `write` is the time in nanoseconds that writing the response took, if it was written.
    pub(crate) fn end(&self, mut request_record: Box<RequestRecord>, write: Option<u64>) {
        if let Some(observer) = &self.observer {
            let route = self.routes.name(request_record.kind.route());
            let finished = request_record.finished(route, write);
            // A panicking observer must not end the lane.
            if catch_unwind(AssertUnwindSafe(|| observer(&finished))).is_err() {
                self.lane.shared().metrics.panics.add(1);
                tracing::error!(lane = self.lane.index, "the observer of requests panicked");
            }
        }
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            // Drops the references to the request's memory now.
            (request_record.id, request_record.trace, request_record.span) = (None, None, None);
            spare.push(request_record);
        }
    }
}
