//! WebSockets with axum: an echo, and a chat room across all lanes. Both close with code 1001 when
//! a drain starts.
//!
//! ```sh
//! cargo run --example websocket 127.0.0.1:8080
//! websocat ws://127.0.0.1:8080/room     # in two terminals
//! ```

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{CloseCode, CloseFrame, Message, Utf8Bytes, WebSocket};
use axum::extract::ws::{WebSocketUpgrade, close_code};
use axum::response::Response;
use axum::routing::any;
use corelane::{Lane, Server};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// Maximum number of messages that a lane or a member may be behind.
const BEHIND: usize = 256;

#[derive(Clone)]
struct Room {
    lane: Lane,
    everyone: Sender<Utf8Bytes>,
    /// Sends to the members on this lane, so that a message wakes every other lane only once, not
    /// once per member.
    here: Sender<Utf8Bytes>,
}

impl Room {
    fn open(lane: &Lane, everyone: &Sender<Utf8Bytes>) -> Room {
        let here = Sender::new(BEHIND);
        tokio::spawn(relay(everyone.subscribe(), here.clone()));
        Room { lane: lane.clone(), everyone: everyone.clone(), here }
    }
}

async fn relay(mut everyone: Receiver<Utf8Bytes>, here: Sender<Utf8Bytes>) {
    loop {
        match everyone.recv().await {
            // Fails if this lane has no members.
            Ok(text) => drop(here.send(text)),
            // A handler blocked the lane for too long, and its members miss some messages.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

// This is `any`, because a WebSocket over HTTP/2 starts with CONNECT, not GET.
async fn echo(State(room): State<Room>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |mut socket| {
        let mut draining = room.lane.draining();
        loop {
            tokio::select! {
                message = socket.recv() => match message {
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                        if socket.send(message).await.is_err() {
                            return;
                        }
                    }
                    Some(Ok(_)) => {} // axum answers pings
                    Some(Err(_)) | None => return,
                },
                () = &mut draining => return close(socket, close_code::AWAY).await,
            }
        }
    })
}

async fn enter(State(room): State<Room>, upgrade: WebSocketUpgrade) -> Response {
    // Subscribes before responding, so that the member does not miss any messages.
    let heard = room.here.subscribe();
    upgrade.on_upgrade(async move |socket| stay(room, heard, socket).await)
}

async fn stay(room: Room, mut heard: Receiver<Utf8Bytes>, mut socket: WebSocket) {
    let mut draining = room.lane.draining();
    loop {
        let text = tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => {
                    let _ = room.everyone.send(text); // fails only without lanes
                    continue;
                }
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return,
            },
            text = heard.recv() => text,
            () = &mut draining => return close(socket, close_code::AWAY).await,
        };
        match text {
            Ok(text) => {
                if socket.send(Message::Text(text)).await.is_err() {
                    return;
                }
            }
            // This member reads too slowly, and the room must not buffer messages for it.
            Err(RecvError::Lagged(_)) => return close(socket, close_code::AGAIN).await,
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sends the reason and waits for the client, because closing at once could lose the reason.
async fn close(mut socket: WebSocket, code: CloseCode) {
    let frame = CloseFrame { code, reason: Utf8Bytes::default() };
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).routes(["/echo", "/room"]).build()?;
    println!("listening on {}", server.local_addr()?);
    let everyone = Sender::new(BEHIND);
    let drained = server.serve(move |lane| {
        let room = Room::open(lane, &everyone);
        Router::new().route("/echo", any(echo)).route("/room", any(enter)).with_state(room)
    })?;
    println!("drained; {} connections were cut", drained.cut);
    Ok(())
}
