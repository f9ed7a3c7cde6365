//! Tests the service on its own server, over real sockets.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use corelane::Server;
use corelane::testing::TestServer;
use corelane_client::{Calls, Target}; //+calls
use corelane_service::http::exchange;

/// A server in place of __CALLED__. //+calls
fn start_called() -> TestServer { //+calls
    let pages = |_lane: &corelane::Lane| axum::Router::new().route("/", axum::routing::get(async || "called")); //+calls
    TestServer::start(Server::builder(), pages).expect("it starts") //+calls
} //+calls
 //+calls
fn start() -> (TestServer, tempfile::TempDir) { //-calls
fn start(called: &TestServer) -> (TestServer, tempfile::TempDir) { //+calls
    let target: Target = format!("http://{}", called.address()).parse().expect("a URL"); //+calls
    let callee = Calls::new().service("__CALLED__", target).expect("it starts"); //+calls
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("test.db").display());
    let server = TestServer::try_start(Server::builder(), move |lane| {
        let url = url.clone();
        let client = callee.lane(); //+calls
        async move { __CRATE__::service(&lane, &url, "hello".to_owned()).await } //-calls
        async move { __CRATE__::service(&lane, &url, "hello".to_owned(), client).await } //+calls
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
    let called = start_called(); //+calls
    let (server, _folder) = start(&called); //+calls
    let (server, _folder) = start(); //-calls
    assert_eq!(ask(&server, "GET", "/", "").await, (StatusCode::OK, "hello\n".to_owned()));
}

#[tokio::test]
async fn a_note_is_kept_until_it_is_replaced() {
    let called = start_called(); //+calls
    let (server, _folder) = start(&called); //+calls
    let (server, _folder) = start(); //-calls
    let (status, problem) = ask(&server, "GET", "/notes/milk", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(problem.contains("urn:corelane:problem:no-note"), "{problem}");
    for note in [r#"{"text":"buy some"}"#, r#"{"text":"bought"}"#] {
        assert_eq!(ask(&server, "PUT", "/notes/milk", note).await.0, StatusCode::NO_CONTENT);
        assert_eq!(ask(&server, "GET", "/notes/milk", "").await, (StatusCode::OK, note.to_owned()));
    }
}
 //+calls
#[tokio::test] //+calls
async fn it_calls_the_other_service() { //+calls
    let called = start_called(); //+calls
    let (server, _folder) = start(&called); //+calls
    assert_eq!(ask(&server, "GET", "/__CALLED__", "").await, (StatusCode::OK, "called".to_owned())); //+calls
} //+calls
