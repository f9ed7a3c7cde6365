//! Clients that send requests cut at any place, alone and in pipelines, with pauses, and check each
//! byte of the responses.

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

/// State that the clients of a run share.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) habit: Habit,
    /// Longest wait until a byte is received or sent.
    pub(crate) patience: Duration,
    /// Whether no new request is sent.
    pub(crate) over: AtomicBool,
    /// Whether a drain has begun: connections may end between two requests.
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

/// How a connection may be used after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Open,
    Ended,
}

/// Runs one client: one connection after another, each with one script after another.
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

/// Runs one connection, from its beginning to its end.
async fn connect(world: &World, rng: &mut Rng) -> Result<(), String> {
    let unconnected = |error: io::Error| format!("{NO_CONNECTION}: {error}");
    let mut socket = connect_tcp(world, rng).await.map_err(unconnected)?;
    let port = socket.local_addr().map_err(unconnected)?.port();
    // Read while the connection is open.
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
        // Large responses then wait for it.
        socket.set_recv_buffer_size(8 << 10)?;
    }
    let stream = socket.connect(world.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Runs the exchanges of one connection.
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

/// Sends a script, and reads the responses in the meantime.
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
    // A drain that begins after the last byte was sent loses nothing of the script.
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
    // Once the last response has arrived, the rest of the script is not sent.
    let (sent, heard) = tokio::join!(writing, hearing);
    let after = heard.map_err(|what| format!("{what} of {script:?}"))?;
    // After a client has vanished nothing is awaited; a server that drains may end the connection
    // later.
    if script.ending != Ending::Vanish && !world.is_draining() {
        sent.map_err(|error| format!("{error} while sending {script:?}"))?;
    }
    Ok(after)
}

/// Reads the responses to a script, and the end of its connection if the script ends it.
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
    // Not answered, because it was in transit when the server closed.
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

/// The text of a system error that broke the connection.
const BROKEN: &str = "os error";

/// Sends bytes, for which the server must make room in time.
async fn send(world: &World, io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let sent = async {
        io.write_all(bytes).await?;
        io.flush().await
    };
    timeout(world.patience, sent).await?
}

/// Sends a request whose client first asks whether the server wants its body.
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
        // The server may close between two parts of a request.
        Err(what) if world.is_draining() && what.contains(BROKEN) => Ok(After::Ended),
        after => after.map_err(|what| format!("{what}: {recipe:?}")),
    }
}

/// The kernel's queues at both ends of a connection: bytes that were sent but not received, and
/// bytes that arrived but were not read (proc_net_tcp in the kernel's documentation).
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

/// Pauses for up to 2 ms, most often not at all.
async fn pause(rng: &mut Rng) {
    match rng.u8(0..10) {
        0..5 => {}
        5..8 => yield_now().await,
        _ => sleep(Duration::from_micros(rng.u64(0..2000))).await,
    }
}
