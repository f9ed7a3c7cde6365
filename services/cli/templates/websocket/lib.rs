//! A chat room across all lanes of a replica. When the replica drains, members get code 1001 and
//! reconnect.

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use axum::routing::{any, get};
use corelane::Lane;
use corelane::axum::LearnRoutes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

const BEHIND: usize = 256;

#[derive(Clone)]
pub struct Everyone(Sender<Utf8Bytes>);

impl Default for Everyone {
    fn default() -> Self {
        Everyone(Sender::new(BEHIND))
    }
}

#[derive(Clone)]
struct Room {
    lane: Lane,
    everyone: Everyone,
    greeting: Utf8Bytes,
}

pub fn service(lane: &Lane, everyone: &Everyone, greeting: &str) -> Router {
    let room = Room { lane: lane.clone(), everyone: everyone.clone(), greeting: greeting.into() };
    Router::new()
        .route("/", get(async || "connect to /room\n"))
        // This is `any`, because a WebSocket over HTTP/2 starts with CONNECT.
        .route("/room", any(enter))
        // Metrics, logs and the load table name each request after its route.
        .layer(LearnRoutes)
        .with_state(room)
}

async fn enter(State(room): State<Room>, upgrade: WebSocketUpgrade) -> Response {
    // Subscribes before replying, so that the member does not miss any messages.
    let heard = room.everyone.0.subscribe();
    upgrade.on_upgrade(async move |socket| stay(room, heard, socket).await)
}

/// Passes messages between a member and the room until either side closes the connection.
async fn stay(room: Room, mut heard: Receiver<Utf8Bytes>, mut socket: WebSocket) {
    let mut draining = room.lane.draining();
    if socket.send(Message::Text(room.greeting)).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    // Fails only if there are no members.
                    let _ = room.everyone.0.send(text);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            },
            text = heard.recv() => match text {
                Ok(text) => {
                    if socket.send(Message::Text(text)).await.is_err() {
                        return;
                    }
                }
                // This member reads too slowly, and the room must not buffer messages for it.
                Err(RecvError::Lagged(_)) => return close(socket, close_code::AGAIN).await,
                Err(RecvError::Closed) => return,
            },
            () = &mut draining => return close(socket, close_code::AWAY).await,
        }
    }
}

/// Sends the reason and waits for the client, because closing at once could lose the reason.
async fn close(mut socket: WebSocket, code: u16) {
    let frame = CloseFrame { code, reason: Utf8Bytes::default() };
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}
