//! Tests the service on its own server, over real sockets.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use corelane::Server;
use corelane::testing::TestServer;
use corelane_service::http::exchange;

fn start() -> (TestServer, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("test.db").display());
    let server = TestServer::try_start(Server::builder(), move |lane| {
        let url = url.clone();
        async move { __CRATE__::service(&lane, &url, "hello".to_owned()).await }
    });
    (server.expect("it starts"), folder)
}

async fn ask(server: &TestServer, method: &str, path: &str, body: &'static str) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "test")
        .header("content-type", "application/json")
        .body(Body::from(body));
    let reply = exchange(server.address(), request.expect("a request")).await.expect("a reply");
    let text = String::from_utf8(reply.body().to_vec()).expect("text");
    (reply.status(), text)
}

#[tokio::test]
async fn the_front_page_greets() {
    let (server, _folder) = start();
    assert_eq!(ask(&server, "GET", "/", "").await, (StatusCode::OK, "hello\n".to_owned()));
}

#[tokio::test]
async fn a_note_is_kept_until_it_is_replaced() {
    let (server, _folder) = start();
    let (status, problem) = ask(&server, "GET", "/notes/milk", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(problem.contains("urn:corelane:problem:no-note"), "{problem}");
    for note in [r#"{"text":"buy some"}"#, r#"{"text":"bought"}"#] {
        assert_eq!(ask(&server, "PUT", "/notes/milk", note).await.0, StatusCode::NO_CONTENT);
        assert_eq!(ask(&server, "GET", "/notes/milk", "").await, (StatusCode::OK, note.to_owned()));
    }
}
