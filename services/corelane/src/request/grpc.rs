//! gRPC errors, which replace problem documents.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame};

use crate::message::grpc::has_failed;
use crate::message::problem::grpc_status;
use crate::request::in_flight::InFlightRequest;
use crate::request::refusal::too_large;

impl InFlightRequest {
    /// Turns a problem document into the response to a call. Metrics record the problem's status.
    #[cold]
    pub(super) fn tell_call(&self, mut reply: Response<Bytes>) -> Response<Bytes> {
        let told = grpc_status(reply.status(), reply.body());
        self.problem.set(Some(reply.status()));
        *reply.status_mut() = StatusCode::OK;
        if let Some(grpc) = self.grpc {
            told.replace(grpc, reply.headers_mut());
        }
        reply.map(|_| Bytes::new())
    }

    /// The part of a body that is ready. A problem document is complete when its head is complete.
    #[cold]
    pub(super) fn first_part<B: Body<Data = Bytes>>(&self, body: B) -> Bytes {
        let poll = || match pin!(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            _ => Bytes::new(),
        };
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| {
            self.lane.metrics().panics.add(1);
            Bytes::new()
        })
    }

    /// Reports an oversized body in the trailers if the response head has been sent. The service
    /// knows only that the body failed.
    pub(super) fn correct_trailers(&self, frame: &mut Frame<Bytes>) {
        if self.body_is_too_large()
            && let Some(trailers) = frame.trailers_mut().filter(|trailers| has_failed(trailers))
        {
            let (status, _, document) = too_large(self.body_limit()).into_parts();
            grpc_status(status, &document).write(trailers);
        }
    }
}
