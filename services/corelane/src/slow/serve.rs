//! Serves a slow lane's requests on its thread.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Response};
use http_body::Body;
use tokio::sync::mpsc;
use tokio::task::{spawn_local, yield_now};
use tokio_util::task::TaskTracker;
use tower::util::ServiceExt;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::load::table::LongestPoll;
use crate::request::current::{self, CurrentRequest};
use crate::request::offload::{FarAnswer, FarBody};
use crate::request::record::RequestRecord;
use crate::request::service::HttpService;
use crate::slow::body::{BodyPart, SentBody};
use crate::slow::job::Job;
use crate::slow::queue::{QueueState, SlowQueues, SlowSlot};

/// Body bytes sent with the head if they are ready.
const FIRST: usize = 64 * 1024;

const FIRST_PARTS: usize = 64;

/// Maximum number of body parts that may wait for the lane.
const AHEAD: usize = 2;

/// Starts a slow lane's requests one at a time, until its queue is closed and all requests have
/// finished. Some may belong to other lanes, whose connections continue.
pub(crate) async fn run<S: HttpService>(queues: Arc<SlowQueues>, lane: usize, service: S) {
    let requests = TaskTracker::new();
    requests.close();
    loop {
        if let Some((job, slot)) = queues.next(lane) {
            spawn_local(requests.track_future(serve(service.clone(), job, slot)));
            // Continues after the event loop has polled its sockets.
            yield_now().await;
            continue;
        }
        match queues.state(lane) {
            QueueState::Open => queues.changed(lane).await,
            QueueState::Closed if !requests.is_empty() => tokio::select! {
                () = requests.wait() => {}
                () = queues.changed(lane) => {}
            },
            QueueState::Closed | QueueState::Ended => return,
        }
    }
}

#[derive(Default)]
struct PollTimes {
    sum: u64,
    longest: u64,
}

impl PollTimes {
    fn measure<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let begun = Tick::of_thread();
        let polled = poll();
        let took = Tick::of_thread().saturating_sub(begun);
        self.sum += took;
        self.longest = self.longest.max(took);
        polled
    }
}

async fn serve<S: HttpService>(service: S, job: Box<Job>, slot: SlowSlot) {
    let Job { request, current, record, mut answer, .. } = *job;
    let (current, record) = (Rc::new(current), Cell::new(record));
    let as_current: Rc<dyn CurrentRequest> = Rc::clone(&current) as _;
    let started = Tick::now();
    let is_head = request.method() == Method::HEAD;
    let mut polls = PollTimes::default();
    let mut handler = Some(Box::pin(service.oneshot(request)));
    let outcome = poll_fn(|cx| {
        let Some(running) = handler.as_mut().filter(|_| answer.poll_closed(cx).is_pending()) else {
            return Poll::Ready(None);
        };
        current.polled.set(Tick::now());
        let poll = || catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
        let polled = polls.measure(|| current::within_handed_over(&as_current, &record, poll));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(made)) => Poll::Ready(Some(Ok(made))),
            Err(panic) => Poll::Ready(Some(Err(panic))),
        }
    })
    .await;
    // Everything that the handler holds is released before the result is sent.
    handler = None;
    drop((handler, slot));
    let Some(outcome) = outcome else { return };
    let (outcome, rest) = match outcome {
        Ok(Ok(response)) => {
            let (response, rest) = begin(response, is_head, &record).await;
            (Ok(Ok(response)), rest)
        }
        Ok(Err(error)) => (Ok(Err(error.into())), None),
        Err(panic) => (Err(panic), None),
    };
    let longest = LongestPoll { nanos: polls.longest, is_cpu: true };
    let (route, refused) = current.changes();
    let held = polls.sum;
    let made = Box::new(FarAnswer { outcome, started, held, longest, route, refused });
    if let (Ok(()), Some((body, parts))) = (answer.send(made), rest) {
        stream(body, parts, &record).await;
    }
}

type Rest<B> = Option<(Pin<Box<B>>, mpsc::Sender<BodyPart>)>;

async fn begin<B>(
    response: Response<B>,
    is_head: bool,
    record: &Cell<Option<Box<RequestRecord>>>,
) -> (Response<FarBody>, Rest<B>)
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = response.into_parts();
    let (hint, has_ended) = (body.size_hint(), body.is_end_stream());
    let mut sent = SentBody { ready: VecDeque::new(), rest: None, hint, has_ended };
    // The body of a HEAD response is not sent.
    if has_ended || is_head {
        return (Response::from_parts(head, Box::new(sent) as FarBody), None);
    }
    let mut body = Box::pin(body);
    let mut bytes = 0;
    let is_whole = poll_fn(|cx| {
        while bytes < FIRST && sent.ready.len() < FIRST_PARTS {
            let Poll::Ready(part) = poll_part(body.as_mut(), record, cx) else { break };
            bytes += part.bytes();
            let is_end = part.is_end();
            sent.ready.push_back(part);
            if is_end {
                return Poll::Ready(true);
            }
        }
        Poll::Ready(false)
    })
    .await;
    if is_whole {
        return (Response::from_parts(head, Box::new(sent) as FarBody), None);
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    sent.rest = Some(receiver);
    (Response::from_parts(head, Box::new(sent) as FarBody), Some((body, sender)))
}

async fn stream<B>(
    mut body: Pin<Box<B>>,
    parts: mpsc::Sender<BodyPart>,
    record: &Cell<Option<Box<RequestRecord>>>,
) where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    loop {
        let Ok(permit) = parts.reserve().await else { return };
        let next = poll_fn(|cx| poll_part(body.as_mut(), record, cx));
        let part = tokio::select! {
            biased;
            // The client has disconnected.
            () = parts.closed() => return,
            part = pin!(next) => part,
        };
        let is_end = part.is_end();
        permit.send(part);
        if is_end {
            return;
        }
    }
}

impl BodyPart {
    fn bytes(&self) -> usize {
        match self {
            BodyPart::Frame { frame, .. } => frame.data_ref().map_or(0, Bytes::len),
            BodyPart::End | BodyPart::Failed(_) | BodyPart::Panicked(_) => 0,
        }
    }

    fn is_end(&self) -> bool {
        !matches!(self, BodyPart::Frame { is_last: false, .. })
    }
}

fn poll_part<B>(
    mut body: Pin<&mut B>,
    record: &Cell<Option<Box<RequestRecord>>>,
    cx: &mut Context<'_>,
) -> Poll<BodyPart>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let poll = || catch_unwind(AssertUnwindSafe(|| body.as_mut().poll_frame(cx)));
    match current::lending(record, poll) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(Some(Ok(frame)))) => {
            let is_last = frame.is_trailers() || body.is_end_stream();
            Poll::Ready(BodyPart::Frame { frame, is_last })
        }
        Ok(Poll::Ready(Some(Err(error)))) => Poll::Ready(BodyPart::Failed(error.into())),
        Ok(Poll::Ready(None)) => Poll::Ready(BodyPart::End),
        Err(panic) => Poll::Ready(BodyPart::Panicked(panic)),
    }
}
