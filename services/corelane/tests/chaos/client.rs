//! Clients that split requests at random points, send them one at a time or pipelined, and verify
//! every byte of the responses.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::ledger::Ledger;
use crate::recipe::{Carry, Recipe, Take, cut, one_of};
use crate::script::{Ending, Habit, Script};
use crate::support::tls;
use crate::wire::{Heard, Inbox, Transport};

pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) habit: Habit,
    /// Timeout of one read or write.
    pub(crate) patience: Duration,
    pub(crate) over: AtomicBool,
    pub(crate) draining: AtomicBool,
}

impl World {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// What a client does with its connection after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Open,
    Ended,
}

/// Runs one client: opens connections in a loop and plays scripts on each.
pub(crate) async fn live(world: Arc<World>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    while !world.is_over() {
        if let Err(what) = connect(&world, &mut rng).await {
            if world.is_draining() && what.starts_with(NO_CONNECTION) {
                return;
            }
            world.ledger.fault(format!("client {seed}: {what}"));
            yield_now().await;
        }
    }
}

const NO_CONNECTION: &str = "no connection";

async fn connect(world: &World, rng: &mut Rng) -> Result<(), String> {
    let unconnected = |error: io::Error| format!("{NO_CONNECTION}: {error}");
    let mut socket = connect_tcp(world, rng).await.map_err(unconnected)?;
    let port = socket.local_addr().map_err(unconnected)?.port();
    // The queues can be read only while the connection is open.
    let more = |what| format!("{what}; {}", queues(port));
    match &world.tls {
        None => talk(world, &mut socket, rng).await.map_err(more),
        Some(config) => {
            let connector = TlsConnector::from(Arc::clone(config));
            let mut socket = connector.connect(tls::name(), socket).await.map_err(unconnected)?;
            talk(world, &mut socket, rng).await.map_err(more)
        }
    }
}

async fn connect_tcp(world: &World, rng: &mut Rng) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if rng.u8(0..5) == 0 {
        // The buffer is small, so that large responses have to wait.
        socket.set_recv_buffer_size(8 << 10)?;
    }
    let stream = socket.connect(world.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn talk(world: &World, io: &mut impl Transport, rng: &mut Rng) -> Result<(), String> {
    let mut inbox = Inbox::new(world.patience);
    while !world.is_over() {
        let after = if rng.u8(0..40) == 0 {
            expect(world, io, &mut inbox, rng).await?
        } else {
            let script = Script::any(world.habit, &world.ledger, rng);
            play(world, io, &mut inbox, &script, rng).await?
        };
        if after == After::Ended {
            return Ok(());
        }
        pause(rng).await;
    }
    Ok(())
}

async fn play(
    world: &World,
    io: &mut impl Transport,
    inbox: &mut Inbox,
    script: &Script,
    rng: &mut Rng,
) -> Result<After, String> {
    let mut words = script.words();
    if script.ending == Ending::Vanish {
        words.truncate(rng.usize(0..=words.len()));
        script.requests.iter().for_each(|recipe| world.ledger.give_up(recipe.number));
    }
    let (mut input, mut output) = tokio::io::split(io);
    // If the drain starts after the last byte was sent, the whole script must be answered.
    let sent_in_time = Cell::new(false);
    let mut pauses = rng.fork();
    let parts = match script.cut {
        Some(at) => vec![0..at, at..words.len()],
        None => cut(words.len(), rng),
    };
    let writing = async {
        for part in parts {
            send(world, &mut output, &words[part]).await?;
            match script.cut {
                Some(_) => sleep(Duration::from_millis(3)).await,
                None => pause(&mut pauses).await,
            }
        }
        if script.ending == Ending::HalfClose {
            output.shutdown().await?;
        }
        sent_in_time.set(!world.is_draining());
        io::Result::Ok(())
    };
    let mut pauses = rng.fork();
    let hearing = hear(world, &mut input, inbox, script, &sent_in_time, &mut pauses);
    // The script is cut off after its last response.
    let (sent, heard) = tokio::join!(writing, hearing);
    let after = heard.map_err(|what| format!("{what} of {script:?}"))?;
    // There is nothing to wait for if the client vanished or if a draining server is going to close
    // the connection.
    if script.ending != Ending::Vanish && !world.is_draining() {
        sent.map_err(|error| format!("{error} while sending {script:?}"))?;
    }
    Ok(after)
}

async fn hear(
    world: &World,
    input: &mut (impl AsyncRead + Unpin),
    inbox: &mut Inbox,
    script: &Script,
    sent_in_time: &Cell<bool>,
    pauses: &mut Rng,
) -> Result<After, String> {
    if script.ending == Ending::Vanish {
        return Ok(After::Ended);
    }
    // Whether a response may be missing because the server closed the connection first.
    let is_late = || world.is_draining() && !sent_in_time.get();
    for (at, recipe) in script.requests.iter().enumerate() {
        if pauses.u8(0..8) == 0 {
            pause(pauses).await;
        }
        let last = match inbox.reply(input, recipe).await {
            Ok(Heard::Reply { last }) => last,
            Ok(Heard::End) if is_late() => return Ok(After::Ended),
            Ok(Heard::End) => return Err(format!("no reply to request {at}")),
            Err(what) if is_late() && what.contains(BROKEN) => return Ok(After::Ended),
            Err(what) => return Err(format!("{what}: request {at}")),
        };
        world.ledger.answer(recipe.number);
        if last && world.is_draining() {
            inbox.end(input).await?;
            return Ok(After::Ended);
        }
        if last && !(at + 1 == script.requests.len() && script.ending == Ending::Last) {
            return Err(format!("request {at} ended the connection"));
        }
    }
    match script.ending {
        Ending::Open => return Ok(After::Open),
        Ending::Nonsense => match inbox.refusal(input, !script.asks_head()).await? {
            None if is_late() => return Ok(After::Ended),
            None => return Err("no reply to nonsense".to_owned()),
            Some(()) => {}
        },
        Ending::Last | Ending::HalfClose | Ending::Vanish => {}
    }
    inbox.end(input).await?;
    Ok(After::Ended)
}

const BROKEN: &str = "os error";

/// Sends bytes, and fails if the server does not make room in time.
async fn send(world: &World, io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let sent = async {
        io.write_all(bytes).await?;
        io.flush().await
    };
    timeout(world.patience, sent).await?
}

/// Sends a request with `Expect: 100-continue`.
async fn expect(
    world: &World,
    io: &mut impl Transport,
    inbox: &mut Inbox,
    rng: &mut Rng,
) -> Result<After, String> {
    let number = world.ledger.issue();
    let carry = *one_of(rng, &[Carry::Length(500), Carry::Chunks(500, 70)]);
    let recipe = Recipe { carry, take: Take::Read, ..Recipe::simple(number) };
    let (head, body) = recipe.words("Expect: 100-continue\r\n");
    let asked = async {
        for part in cut(head.len(), rng) {
            send(world, io, &head[part]).await.map_err(|error| error.to_string())?;
            pause(rng).await;
        }
        match inbox.head(io).await? {
            Some(said) if said.starts_with("http/1.1 100 ") => {}
            None if world.is_draining() => return Ok(After::Ended),
            said => return Err(format!("{said:?} where 100 is expected")),
        }
        for part in cut(body.len(), rng) {
            send(world, io, &body[part]).await.map_err(|error| error.to_string())?;
            pause(rng).await;
        }
        match inbox.reply(io, &recipe).await? {
            Heard::Reply { last } => {
                world.ledger.answer(number);
                match last {
                    false => Ok(After::Open),
                    true if world.is_draining() => Ok(After::Ended),
                    true => Err("it ended the connection".to_owned()),
                }
            }
            Heard::End if world.is_draining() => Ok(After::Ended),
            Heard::End => Err("no reply".to_owned()),
        }
    };
    match asked.await {
        // The server may close the connection between two parts of a request.
        Err(what) if world.is_draining() && what.contains(BROKEN) => Ok(After::Ended),
        after => after.map_err(|what| format!("{what}: {recipe:?}")),
    }
}

/// Send and receive queues of both ends, from /proc/net/tcp.
fn queues(port: u16) -> String {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let port = format!(":{port:04X}");
    let ends = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, local, remote, state, queues, ..] = words[..] else { return None };
        let end = match (local.ends_with(&port), remote.ends_with(&port)) {
            (true, _) => "client",
            (_, true) => "server",
            _ => return None,
        };
        Some(format!("{end} state {state} sent:received {queues}"))
    });
    ends.collect::<Vec<_>>().join(", ")
}

/// Pauses for up to 2 ms, but usually not at all.
async fn pause(rng: &mut Rng) {
    match rng.u8(0..10) {
        0..5 => {}
        5..8 => yield_now().await,
        _ => sleep(Duration::from_micros(rng.u64(0..2000))).await,
    }
}
