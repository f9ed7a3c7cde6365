//! The service under test: records every request it executes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use corelane::Incoming;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Sleep, sleep};

use crate::ledger::Ledger;
use crate::recipe::{Give, Recipe, Take, Wait, reply_body, request_body};

const PARTS: usize = 4;

/// A late reader yields this often while it waits for the next request.
const LATE: usize = 64;

pub(crate) async fn answer(
    ledger: Arc<Ledger>,
    request: Request<Incoming>,
) -> Result<Response<Given>, Infallible> {
    let uri = request.uri();
    let Some(recipe) = Recipe::asked(uri.path(), uri.query()) else {
        ledger.fault(format!("nobody sent {} {uri}", request.method()));
        return Ok(Response::new(Given::new(Vec::new(), true, Wait::Nothing)));
    };
    ledger.execute(recipe.number);
    let mut body = request.into_body();
    match recipe.take {
        Take::Read => check(&ledger, recipe.number, body).await,
        Take::Drop => drop(body),
        Take::Half => drop(body.frame().await),
        Take::Late => {
            spawn_local(read_late(ledger, recipe.number, body));
        }
    }
    match recipe.wait {
        Wait::Nothing => {}
        Wait::Turn => yield_now().await,
        Wait::Timer => sleep(Duration::from_millis(1)).await,
    }
    let content = reply_body(recipe.number, recipe.size);
    let given = match recipe.give {
        Give::Whole => Given::new(vec![content], true, Wait::Nothing),
        give => {
            let part = recipe.size.div_ceil(PARTS).max(1);
            let parts = (0..recipe.size).step_by(part);
            let parts = parts.map(|at| content.slice(at..recipe.size.min(at + part)));
            Given::new(parts.collect(), give == Give::Parts, recipe.wait)
        }
    };
    Ok(Response::new(given))
}

async fn check(ledger: &Ledger, number: u64, mut body: Incoming) {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => all.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
            // If this error is a fault, the client reports it.
            Err(_) => return,
        }
    }
    if all[..] != request_body(number, all.len())[..] {
        let text = String::from_utf8_lossy(&all[..all.len().min(200)]);
        ledger.fault(format!("the body of request {number} is another's: {text:?}"));
    }
}

/// Reads a body long after its response was sent. If another request follows, both are read at the
/// same time.
async fn read_late(ledger: Arc<Ledger>, number: u64, body: Incoming) {
    for _ in 0..LATE {
        if ledger.is_executed(number + 1) {
            break;
        }
        yield_now().await;
    }
    check(&ledger, number, body).await;
}

pub(crate) struct Given {
    parts: VecDeque<Bytes>,
    known: Option<u64>,
    wait: Wait,
    waited: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Given {
    fn new(parts: Vec<Bytes>, known: bool, wait: Wait) -> Given {
        let length = parts.iter().map(|part| part.len() as u64).sum();
        let known = known.then_some(length);
        Given { parts: parts.into(), known, wait, waited: false, sleep: None }
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.wait {
            Wait::Nothing => Poll::Ready(()),
            Wait::Turn if self.waited => Poll::Ready(()),
            Wait::Turn => {
                self.waited = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Wait::Timer => {
                let begin = || Box::pin(sleep(Duration::from_millis(1)));
                self.sleep.get_or_insert_with(begin).as_mut().poll(cx)
            }
        }
    }
}

impl Body for Given {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.poll_wait(cx));
        (self.waited, self.sleep) = (false, None);
        let Some(part) = self.parts.pop_front() else { return Poll::Ready(None) };
        self.known = self.known.map(|known| known - part.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.known == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.known.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
