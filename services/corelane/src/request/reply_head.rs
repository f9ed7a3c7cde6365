//! The head of a reply: what the server adds to that of the service.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use http::response::Parts;
use http::{HeaderMap, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::task::spawn_local;

use crate::base::clock::Tick;
use crate::base::phase::Phase;
use crate::message::request_id::{ID_FIELD, X_REQUEST_ID};
use crate::request::connection::Order;
use crate::request::in_flight::InFlightRequest;
use crate::request::lane_state::{LANE, REPLICA};
use crate::request::record::RequestRecords;
use crate::request::upload::DISCARDED;

/// The start of the header line with the request id ([`ID_FIELD`]).
const ID_LINE: &[u8] = b"x-request-id: ";

impl InFlightRequest {
    /// Completes the head of a reply that was made `now`. `body` is the body of a GET.
    pub(crate) fn complete(&mut self, head: &mut Parts, body: &impl Body, now: Tick) {
        let status = self.problem.get().unwrap_or(head.status);
        self.status = Some(status);
        self.made = Some(now);
        self.settle_expected();
        if let Some((key, _)) = self.current.body {
            self.current.connection.bodies.set_answered(key);
        }
        if let Some(reason) = self.current.refused.get() {
            self.lane.metrics().refuse_request(reason);
        }
        let duration = now.since(self.begun());
        self.lane.metrics().observe_duration(self.kind(), duration);
        // RFC 9110 section 9.3.2: HEAD has the header fields of GET without a body.
        if self.head
            && !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
            && let Some(length) = body.size_hint().exact()
            && !head.headers.contains_key(CONTENT_LENGTH)
        {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if !self.plain {
            self.name(&mut head.headers);
        }
        self.current.connection.report_load(&mut head.headers);
        let kind = self.kind();
        if let Some(request_record) = self.request_record.get_mut() {
            if let Some(trace) = request_record.recorded_trace() {
                self.lane.metrics().exemplify(kind, duration, trace);
            }
            request_record.answer(status, now);
            request_record.give(0, self.head || body.is_end_stream());
        }
        let drains = self.lane.phase.get() != Phase::Serving;
        if drains || self.current.connection.is_last_reply() || !self.discard_body() {
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                // HTTP ends anyway.
            } else if self.version < Version::HTTP_2 {
                head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
            } else {
                self.current.connection.tell(Order::Finish);
            }
        }
    }

    /// Adds the headers that identify the replica, the lane and the request to a reply.
    pub(crate) fn name(&self, fields: &mut HeaderMap) {
        self.lane.sign(fields);
        let request_record = self.request_record.take();
        if let Some(id) =
            request_record.as_ref().and_then(|request_record| request_record.id.as_ref()?.header())
        {
            fields.insert(X_REQUEST_ID, id);
        }
        self.request_record.set(request_record);
    }

    /// Writes the headers of [`InFlightRequest::name`] as lines.
    pub(crate) fn write_names(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.lane.signature_lines());
        let request_record = self.request_record.take();
        if let Some(id) =
            request_record.as_ref().and_then(|request_record| request_record.id.as_ref())
        {
            out.extend_from_slice(ID_LINE);
            id.read(|text| out.extend_from_slice(text));
            out.extend_from_slice(b"\r\n");
        }
        self.request_record.set(request_record);
    }

    /// Whether [`InFlightRequest::name`] would replace this header of the service.
    pub(crate) fn names(&self, field: &str) -> bool {
        match field {
            REPLICA | LANE => !self.lane.signature_lines().is_empty(),
            ID_FIELD => self.lane.request_records.as_ref().is_some_and(RequestRecords::names),
            _ => false,
        }
    }

    /// Discards what the service dropped of the request's body, so that an HTTP/1.1 connection can
    /// continue. False if that would cost more than a new connection: the reply has to announce the
    /// end (RFC 9112 section 9.6).
    fn discard_body(&self) -> bool {
        let Some((_, watch)) = &self.current.body else { return true };
        let Some(body) = watch.take_dropped() else { return true };
        let few = body.size_hint().lower() <= DISCARDED;
        if few {
            spawn_local(discard(body));
        }
        few
    }
}

/// Reads a body up to [`DISCARDED`]. hyper closes the connection if more follows.
async fn discard(mut body: hyper::body::Incoming) {
    let mut left = DISCARDED;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        match left.checked_sub(bytes) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}
