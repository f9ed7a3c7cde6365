//! The service under test.

use std::convert::Infallible;

use bytes::Bytes;
use corelane::{Incoming, Lane};
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, DATE, ETAG, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tower::util::BoxCloneSyncService;

use crate::support::BoxError;

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Reply = Result<Response<Body>, BoxError>;

pub(crate) fn factory(
    _lane: &Lane,
) -> BoxCloneSyncService<Request<Incoming>, Response<Body>, BoxError> {
    BoxCloneSyncService::new(tower::service_fn(answer))
}

fn text(text: impl Into<String>) -> Response<Body> {
    Response::new(Full::from(text.into()).boxed_unsync())
}

fn empty(status: u16) -> Response<Body> {
    let mut reply = text("");
    *reply.status_mut() = StatusCode::from_u16(status).expect("a status");
    reply
}

/// Echoes the bytes of an upgraded connection.
async fn echo(upgrade: OnUpgrade) {
    let Ok(upgraded) = upgrade.await else { return };
    let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
    let _ = tokio::io::copy(&mut read, &mut write).await;
}

async fn answer(mut request: Request<Incoming>) -> Reply {
    let path = request.uri().path().to_owned();
    let method = request.method().clone();
    Ok(match &path[..] {
        "/ping" => text("pong"),
        "*" => text("the server"),
        "/target" => text(format!("{method} {}", request.uri())),
        "/echo" => {
            let body = request.into_body().collect().await?.to_bytes();
            Response::new(Full::new(body).boxed_unsync())
        }
        "/trailers" => {
            let host = format!("{:?}", request.headers().get("host"));
            let body = request.into_body().collect().await?;
            let trailers = body.trailers().map(|trailers| format!("{trailers:?}"));
            text(format!("{host} {}", trailers.unwrap_or_default()))
        }
        "/ignore" => text(format!("ignored {:?}", request.body().size_hint().exact())),
        "/stream" => {
            let frames =
                ["ab", "cd"].map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes()))));
            Response::new(StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync())
        }
        "/only-get" if method != Method::GET => {
            let mut reply = empty(405);
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            reply
        }
        "/101" => empty(101),
        "/switch" => {
            let upgrade = request.extensions_mut().remove();
            let mut reply = empty(if upgrade.is_some() { 101 } else { 426 });
            reply.headers_mut().insert(UPGRADE, HeaderValue::from_static("echo"));
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            upgrade.map(|upgrade| tokio::spawn(echo(upgrade)));
            reply
        }
        "/close" => {
            let mut reply = text("bye");
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            reply
        }
        "/dated" => {
            let mut reply = text("old");
            let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
            reply.headers_mut().insert(DATE, date);
            reply
        }
        "/204" | "/205" | "/304" => {
            let mut reply = empty(path[path.len() - 3..].parse().expect("a status"));
            reply.headers_mut().insert(ETAG, HeaderValue::from_static("\"1\""));
            reply
        }
        "/204-with-length" => {
            let mut reply = empty(204);
            reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            reply
        }
        "/304-with-body" | "/204-with-body" => {
            let mut reply = text("nobody may see this");
            let status = path[1..4].parse().expect("a status");
            *reply.status_mut() = StatusCode::from_u16(status).expect("a status");
            reply
        }
        _ => match path.strip_prefix("/see/") {
            Some(name) => {
                let values = request.headers().get_all(name).iter();
                let values: Vec<_> = values.map(|value| format!("{value:?}")).collect();
                text(values.join(" "))
            }
            None => empty(404),
        },
    })
}
