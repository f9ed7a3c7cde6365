//! Passes requests that hyper has read to the service.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, EXPECT, HeaderValue};
use http::{HeaderMap, Request, Response, Version};
use http_body::Body;
use pin_project_lite::pin_project;

use crate::message::conformance::offers_upgrade;
use crate::request::body::Incoming;
use crate::request::connection::Connection;
use crate::request::in_flight::InFlightRequest;
use crate::request::lane_state::LaneState;
use crate::request::made::{Made, ReplyBody};
use crate::request::refusal::refusal;
use crate::request::reply::Reply;
use crate::request::service::{HttpService, Unserved};

pub(crate) struct Dispatch<S: HttpService> {
    pub(crate) service: S,
    pub(crate) connection: Rc<Connection>,
    pub(crate) lane: Rc<LaneState>,
}

impl<S: HttpService> hyper::service::Service<Request<hyper::body::Incoming>> for Dispatch<S> {
    type Response = Response<ReplyBody<S::Body>>;
    type Error = Infallible;
    type Future = Dispatched<S>;

    fn call(&self, mut request: Request<hyper::body::Incoming>) -> Self::Future {
        let Dispatch { service, connection, lane } = self;
        let keeps_alive = keeps_alive(request.version(), request.headers());
        connection.set_said_last(!keeps_alive);
        connection.expect_reply();
        connection.set_unpolled(true);
        let mut in_flight = Box::new(InFlightRequest::new(
            lane,
            connection,
            &request,
            !request.body().is_end_stream(),
        ));
        in_flight.offer_upgrade(offers_upgrade(&mut request));
        if let Some((reason, problem)) = refusal(&mut request, lane) {
            let reply = Reply::refused(in_flight, reason, problem);
            return Dispatched { reply, upgrade: None };
        }
        let watch = in_flight.body_watch();
        let has_body = watch.is_some();
        // Otherwise, a client that expects 100 (Continue) would send a body that the service does
        // not want.
        let discards = has_body && !in_flight.is_http2() && !request.headers().contains_key(EXPECT);
        let request = request.map(|body| Incoming::new(body, watch, discards));
        let reply = if in_flight.is_http2() || has_body || connection.is_unflushed() {
            Reply::arrived(service, request, in_flight)
        } else {
            // The previous response is complete, so hyper polls the future at once with a working
            // waker.
            Reply::admitted(service, Unserved::new(&mut None, request), in_flight)
        };
        Dispatched { reply, upgrade: None }
    }
}

/// Whether an HTTP/1.1 message's headers keep the connection open and contain no other connection
/// option (RFC 9112 section 9.3). False for older versions.
fn keeps_alive(version: Version, fields: &HeaderMap) -> bool {
    let keeps = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    version >= Version::HTTP_11 && fields.get(CONNECTION).is_none_or(keeps)
}

pin_project! {
    /// The response to one request that hyper has read. The plain path has no upgrades.
    pub(crate) struct Dispatched<S: HttpService> {
        #[pin]
        reply: Reply<S>,
        // A 101 over HTTP/1.1, until the connection is ready to hand over its stream.
        upgrade: Option<Box<Made<S>>>,
    }
}

impl<S: HttpService> Future for Dispatched<S> {
    type Output = Result<Made<S>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(made) = this.upgrade.take() {
            return Poll::Ready(Ok(*made));
        }
        this.reply.as_ref().get_ref().set_polled();
        let polled = this.reply.poll(cx);
        let begins = |made: &Made<S>| made.body().in_flight().begin_upgrade(made.status());
        if !matches!(&polled, Poll::Ready(Ok(made)) if begins(made)) {
            return polled;
        }
        // The connection's task polls again at once.
        if let Poll::Ready(Ok(made)) = polled {
            *this.upgrade = Some(Box::new(made));
        }
        Poll::Pending
    }
}
